//! Two transcripts beside each other.

/// The lines in which `ours` differs from `real`, each with a few lines around it; empty when they
/// are equal.
pub fn diff(real: &[String], ours: &[String]) -> String {
    let steps = steps(real, ours);
    let near = |index: usize| {
        let from = index.saturating_sub(CONTEXT);
        let to = (index + CONTEXT + 1).min(steps.len());
        steps[from..to].iter().any(|step| !matches!(step, Step::Same(_)))
    };
    let mut out = String::new();
    let mut gap = false;
    for (index, step) in steps.iter().enumerate() {
        let (mark, line) = match step {
            Step::Same(line) => (' ', line),
            Step::Real(line) => ('-', line),
            Step::Ours(line) => ('+', line),
        };
        // The request is always worth showing: it says what the lines after it are about.
        if near(index) || (line.starts_with("> ") && near_request(&steps, index)) {
            if gap {
                out.push_str("   …\n");
            }
            gap = false;
            out.push_str(&format!(" {mark} {line}\n"));
        } else {
            gap = true;
        }
    }
    if steps.iter().all(|step| matches!(step, Step::Same(_))) { String::new() } else { out }
}

const CONTEXT: usize = 2;
/// Beyond this the quadratic search would take too long: the middle is shown as replaced.
const MAX_CELLS: usize = 16_000_000;

enum Step<'a> {
    Same(&'a str),
    Real(&'a str),
    Ours(&'a str),
}

/// Whether anything differs between this request and the next.
fn near_request(steps: &[Step<'_>], index: usize) -> bool {
    steps[index + 1..]
        .iter()
        .take_while(|step| !matches!(step, Step::Same(line) if line.starts_with("> ")))
        .any(|step| !matches!(step, Step::Same(_)))
}

fn steps<'a>(real: &'a [String], ours: &'a [String]) -> Vec<Step<'a>> {
    let head = real.iter().zip(ours).take_while(|(a, b)| a == b).count();
    let (a, b) = (&real[head..], &ours[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - tail], &b[..b.len() - tail]);
    let mut steps: Vec<Step<'_>> = real[..head].iter().map(|line| Step::Same(line)).collect();
    if a.len() * b.len() > MAX_CELLS {
        steps.extend(a.iter().map(|line| Step::Real(line)));
        steps.extend(b.iter().map(|line| Step::Ours(line)));
    } else {
        longest_common(a, b, &mut steps);
    }
    steps.extend(real[real.len() - tail..].iter().map(|line| Step::Same(line)));
    steps
}

fn longest_common<'a>(a: &'a [String], b: &'a [String], steps: &mut Vec<Step<'a>>) {
    let width = b.len() + 1;
    let mut best = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            best[i * width + j] = if a[i] == b[j] {
                best[(i + 1) * width + j + 1] + 1
            } else {
                best[(i + 1) * width + j].max(best[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            steps.push(Step::Same(&a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len()
            || (i < a.len() && best[(i + 1) * width + j] >= best[i * width + j + 1])
        {
            steps.push(Step::Real(&a[i]));
            i += 1;
        } else {
            steps.push(Step::Ours(&b[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn equal_transcripts_have_no_diff() {
        assert_eq!(diff(&lines("a b c"), &lines("a b c")), "");
    }

    #[test]
    fn a_change_is_shown_with_its_neighbours() {
        let shown = diff(&lines("a b c d e f g"), &lines("a b c X e f g"));
        assert_eq!(shown, "   …\n   b\n   c\n - d\n + X\n   e\n   f\n");
    }

    #[test]
    fn additions_and_removals() {
        assert_eq!(diff(&lines("a b"), &lines("a b c")), "   a\n   b\n + c\n");
        assert_eq!(diff(&lines("a b c"), &lines("b c")), " - a\n   b\n   c\n");
    }
}
