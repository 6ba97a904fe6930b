# Flattens a document of YAML (or JSON) into lines of a path, a tab and a value:
#
#   runcmd:                      runcmd/0  <tab>  echo a
#   - echo a                     runcmd/1/0  <tab>  b
#   - [b, "c d"]                 runcmd/1/1  <tab>  c d
#
# It reads what people and programs write into cloud-configs: maps, lists, quoted and plain text,
# block text, collections in brackets, comments. It knows no anchors, tags or several documents. In
# values a backslash, line end and tab are \\, \n and \t, as printf's %b reads them.
{ sub(/\r$/, ""); line[++last] = $0 }

END { at = 1; block("", 0) }

function emit(path, value) {
    gsub(/\\/, "&&", value)
    gsub(/\n/, "\\n", value)
    gsub(/\t/, "\\t", value)
    print path "\t" value
}

function indent(text) { match(text, /^ */); return RLENGTH }

function trim(text) { sub(/^[ \t]+/, "", text); sub(/[ \t]+$/, "", text); return text }

function join(path, name) { return path == "" ? name : path "/" name }

# Goes on to the next line that says something.
function skip() {
    while (at <= last && line[at] ~ /^[ \t]*(#.*)?$|^---([ \t]|$)|^%/) at++
    return at <= last
}

# The length of the key that the text begins with, its colon included; 0 if it has none.
function key_length(text) {
    if (text ~ /^"/) return match(text, /^"([^"\\]|\\.)*"[ \t]*:([ \t]|$)/) ? until_colon(text, RLENGTH) : 0
    if (text ~ /^'/) return match(text, /^'[^']*'[ \t]*:([ \t]|$)/) ? until_colon(text, RLENGTH) : 0
    if (text ~ /^[][{}#|>&*!%@`,]/) return 0
    return match(text, /:([ \t]|$)/) ? RSTART : 0
}

function until_colon(text, length_) { return substr(text, length_, 1) == ":" ? length_ : length_ - 1 }

# A map, list or scalar whose lines are indented by at least so much.
function block(path, least,    depth, text, count, rest, size, name) {
    if (!skip() || indent(line[at]) < least) return
    depth = indent(line[at])
    text = substr(line[at], depth + 1)
    if (text ~ /^-([ \t]|$)/) {
        count = 0
        while (skip() && indent(line[at]) == depth && substr(line[at], depth + 1) ~ /^-([ \t]|$)/) {
            rest = substr(line[at], depth + 2)
            if (trim(rest) == "" || trim(rest) ~ /^#/) {
                at++
                block(join(path, count), depth + 1)
            } else if (trim(rest) ~ /^-([ \t]|$)/ || key_length(trim(rest))) {
                # What follows the dash is a line of its own, as far in as it stands.
                line[at] = sprintf("%" (depth + 1) "s", "") rest
                block(join(path, count), depth + 1)
            } else {
                at++
                scalar(join(path, count), trim(rest), depth)
            }
            count++
        }
    } else if (size = key_length(text)) {
        while (skip() && indent(line[at]) == depth) {
            text = substr(line[at], depth + 1)
            if (text ~ /^-([ \t]|$)/ || !(size = key_length(text))) break
            name = unquote(trim(substr(text, 1, size - 1)))
            rest = trim(substr(text, size + 1))
            at++
            if (rest != "" && rest !~ /^#/) scalar(join(path, name), rest, depth)
            else if (skip() && indent(line[at]) > depth) block(join(path, name), depth + 1)
            else if (skip() && indent(line[at]) == depth && substr(line[at], depth + 1) ~ /^-([ \t]|$)/)
                block(join(path, name), depth)
            else emit(join(path, name), "")
        }
    } else {
        at++
        scalar(path, trim(text), depth - 1)
    }
}

# A value that begins in the line before; its further lines are indented by more than so much.
function scalar(path, text, depth,    value) {
    if (text ~ /^[|>][-+0-9]*[ \t]*(#.*)?$/) {
        emit(path, block_text(text, depth))
    } else if (text ~ /^[[{]/) {
        while (!balanced(text) && at <= last) text = text " " trim(line[at++])
        flow = text
        pos = 1
        flow_value(path)
    } else if (text ~ /^["']/) {
        while (!closed(text) && at <= last) text = text " " trim(line[at++])
        flow = text
        pos = 1
        emit(path, flow_text())
    } else {
        sub(/[ \t]+#.*/, "", text)
        value = text
        while (at <= last && indent(line[at]) > depth && line[at] ~ /[^ \t]/) value = value " " trim(line[at++])
        emit(path, value)
    }
}

function block_text(style, depth,    base, value, text, count, blanks, fold, previous) {
    fold = style ~ /^>/
    base = style ~ /[0-9]/ ? depth + 1 : -1
    for (; at <= last; at++) {
        if (line[at] ~ /^ *$/ && (base < 0 || length(line[at]) <= base)) {
            blanks++
            continue
        }
        if (base < 0) base = indent(line[at])
        if (base <= depth || indent(line[at]) < base) break
        text = substr(line[at], base + 1)
        # Folded lines are one, unless an empty one or a deeper one is between them.
        if (count && fold && !blanks && text !~ /^[ \t]/ && previous !~ /^[ \t]/) value = value " "
        else if (count && !(fold && blanks)) value = value "\n"
        for (; blanks > 0; blanks--) value = value "\n"
        value = value text
        previous = text
        count++
    }
    if (style ~ /-/) return value
    if (count) value = value "\n"
    if (style ~ /\+/) for (; blanks > 0; blanks--) value = value "\n"
    return value
}

# Whether all brackets of the text are closed.
function balanced(text,    i, c, open, quote) {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (quote == "\"" && c == "\\") i++
        else if (quote != "") { if (c == quote) quote = "" }
        else if (c == "\"" || c == "'") quote = c
        else if (c == "[" || c == "{") open++
        else if (c == "]" || c == "}") open--
    }
    return open <= 0
}

# Whether the quote that the text begins with is closed.
function closed(text,    i, c, quote) {
    quote = substr(text, 1, 1)
    for (i = 2; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (quote == "\"" && c == "\\") i++
        else if (c == quote) {
            if (quote == "'" && substr(text, i + 1, 1) == "'") i++
            else return 1
        }
    }
    return 0
}

function unquote(text) {
    if (text !~ /^["']/) return text
    flow = text
    pos = 1
    return flow_text()
}

function flow_skip() { while (substr(flow, pos, 1) ~ /^[ \t\n]$/) pos++ }

function flow_value(path,    c, count, name) {
    flow_skip()
    c = substr(flow, pos, 1)
    if (c == "[") {
        pos++
        for (count = 0; ; count++) {
            flow_skip()
            if (pos > length(flow) || substr(flow, pos, 1) == "]") break
            flow_value(join(path, count))
            flow_skip()
            if (substr(flow, pos, 1) == ",") pos++
        }
        pos++
    } else if (c == "{") {
        pos++
        for (;;) {
            flow_skip()
            if (pos > length(flow) || substr(flow, pos, 1) == "}") break
            name = flow_text()
            flow_skip()
            if (substr(flow, pos, 1) == ":") {
                pos++
                flow_value(join(path, name))
            } else emit(join(path, name), "")
            flow_skip()
            if (substr(flow, pos, 1) == ",") pos++
        }
        pos++
    } else emit(path, flow_text())
}

# The text at the position, in quotes or plain.
function flow_text(    c, value, start) {
    flow_skip()
    c = substr(flow, pos, 1)
    if (c == "'") {
        for (pos++; pos <= length(flow); pos++) {
            c = substr(flow, pos, 1)
            if (c == "'" && substr(flow, ++pos, 1) != "'") return value
            value = value c
        }
        return value
    }
    if (c == "\"") {
        for (pos++; pos <= length(flow); pos++) {
            c = substr(flow, pos, 1)
            if (c == "\"") { pos++; return value }
            if (c == "\\") {
                c = substr(flow, ++pos, 1)
                if (c == "n") c = "\n"
                else if (c == "t") c = "\t"
                else if (c == "r") c = "\r"
                else if (c == "e") c = "\033"
                else if (c == "u") { c = sprintf("%c", hex(substr(flow, pos + 1, 4))); pos += 4 }
            }
            value = value c
        }
        return value
    }
    start = pos
    while (pos <= length(flow)) {
        c = substr(flow, pos, 1)
        if (c ~ /^[]},[{]$/ || (c == ":" && substr(flow, pos + 1, 1) ~ /^[ \t]?$/)) break
        pos++
    }
    # A position that does not move would be asked for ever.
    if (pos == start) pos++
    return trim(substr(flow, start, pos - start))
}

function hex(digits,    i, value) {
    for (i = 1; i <= length(digits); i++)
        value = value * 16 + index("0123456789abcdef", tolower(substr(digits, i, 1))) - 1
    return value
}
