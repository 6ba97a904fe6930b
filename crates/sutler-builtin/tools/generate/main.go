// Command generate writes the data files of sutler-builtin: see ../README.md.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	server = flag.String("server", "https://127.0.0.1:6443", "the kube-apiserver to ask for its OpenAPI documents")
	token  = flag.String("token", "", "a bearer token for it")
	crate  = flag.String("crate", "../..", "the folder of sutler-builtin")
	encode = flag.Bool("protobuf", false, "only encode the JSON object on stdin as protobuf to stdout")
)

func main() {
	flag.Parse()
	must(apiextensions.AddToScheme(scheme.Scheme))
	if *encode {
		encodeObject()
		return
	}
	rows := kinds(filepath.Join(*crate, "src/kind/table.rs"))
	schemas := newSchemas()
	types := newTypes(schemas)
	for _, path := range []string{"api", "apis", "apis/apps"} {
		schemas.fetch(path)
	}
	for _, gvk := range rows {
		schemas.fetch(strings.Replace("apis/"+gvk.GroupVersion().String(), "apis/v1", "api/v1", 1))
	}
	for _, gvk := range rows {
		object, err := scheme.Scheme.New(gvk)
		must(err)
		schemas.add(modelName(reflect.TypeOf(object).Elem()))
		types.add(reflect.TypeOf(object).Elem())
		list := gvk
		list.Kind += "List"
		if object, err := scheme.Scheme.New(list); err == nil {
			schemas.add(modelName(reflect.TypeOf(object).Elem()))
		}
	}
	for _, extra := range []any{metav1.Status{}, metav1.APIResourceList{}, metav1.APIGroup{}, metav1.APIGroupList{},
		metav1.APIVersions{}, metav1.WatchEvent{}, metav1.Patch{}, metav1.DeleteOptions{}} {
		schemas.add(modelName(reflect.TypeOf(extra)))
	}
	must(os.WriteFile(filepath.Join(*crate, "data/types.txt"), types.text(), 0o644))
	must(os.WriteFile(filepath.Join(*crate, "data/schemas.json"), schemas.text(), 0o644))
}

// kinds reads group, version and kind from the rows of the Rust table.
func kinds(path string) []schema.GroupVersionKind {
	source, err := os.ReadFile(path)
	must(err)
	row := regexp.MustCompile(`(?m)^\s*\w+\(\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)"`)
	var out []schema.GroupVersionKind
	for _, m := range row.FindAllStringSubmatch(string(source), -1) {
		out = append(out, schema.GroupVersionKind{Group: m[1], Version: m[2], Kind: m[3]})
	}
	return out
}

func modelName(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	log.Fatalf("%s has no model name", t)
	return ""
}

// schemas collects component schemas, without their prose.
type schemas struct {
	known map[string]any
	used  map[string]any
}

func newSchemas() *schemas { return &schemas{map[string]any{}, map[string]any{}} }

func (s *schemas) fetch(path string) {
	request, err := http.NewRequest("GET", *server+"/openapi/v3/"+path, nil)
	must(err)
	request.Header.Set("Authorization", "Bearer "+*token)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	must(err)
	defer response.Body.Close()
	var document struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	must(json.NewDecoder(response.Body).Decode(&document))
	for name, definition := range document.Components.Schemas {
		s.known[name] = definition
	}
}

func (s *schemas) add(name string) {
	if s.used[name] != nil {
		return
	}
	definition, ok := s.known[name].(map[string]any)
	if !ok {
		log.Fatalf("the server publishes no schema %s", name)
	}
	// Those that every group has are filled in for the groups that are really served.
	if gvks, ok := definition["x-kubernetes-group-version-kind"].([]any); ok && len(gvks) > 1 {
		delete(definition, "x-kubernetes-group-version-kind")
		definition["x-every-group"] = gvks[0].(map[string]any)["kind"]
	}
	s.used[name] = definition
	s.strip(definition, false)
}

// strip removes descriptions (but not properties of that name) and follows references.
func (s *schemas) strip(value any, fields bool) {
	switch value := value.(type) {
	case map[string]any:
		if _, ok := value["description"].(string); ok && !fields {
			delete(value, "description")
		}
		if ref, ok := value["$ref"].(string); ok && !fields {
			name := ref[strings.LastIndex(ref, "/")+1:]
			s.add(name)
			value["$ref"] = name
		}
		for key, inner := range value {
			s.strip(inner, key == "properties" && !fields)
		}
	case []any:
		for _, inner := range value {
			s.strip(inner, false)
		}
	}
}

// scalarDefault is the JSON of a field's default, unless that is a struct or nothing.
func (s *schemas) scalarDefault(name, field string) string {
	definition, _ := s.used[name].(map[string]any)
	properties, _ := definition["properties"].(map[string]any)
	property, _ := properties[field].(map[string]any)
	switch value := property["default"].(type) {
	case string, bool, float64:
		text, err := json.Marshal(value)
		must(err)
		return string(text)
	}
	return ""
}

// text is one definition a line, in order, so that a new release makes a readable diff.
func (s *schemas) text() []byte {
	var out bytes.Buffer
	for i, name := range sortedKeys(s.used) {
		line, err := json.Marshal(s.used[name])
		must(err)
		separator := ",\n"
		if i == 0 {
			separator = "{\n"
		}
		fmt.Fprintf(&out, "%s%q:%s", separator, name, line)
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}

// types collects what JSON and protobuf need to know of the Go structs.
type types struct {
	lines   map[string]string
	schemas *schemas
}

func newTypes(schemas *schemas) *types { return &types{map[string]string{}, schemas} }

var special = map[string]string{
	"v1.Time": "Time", "v1.MicroTime": "MicroTime", "v1.Duration": "Duration", "resource.Quantity": "Quantity",
	"intstr.IntOrString": "IntOrString", "runtime.RawExtension": "RawExtension", "v1.FieldsV1": "FieldsV1",
	"v1.JSONSchemaProps": "any", "v1.JSON": "any",
}

func (t *types) add(st reflect.Type) string {
	name := modelName(st)
	if _, ok := t.lines[name]; ok {
		return name
	}
	t.lines[name] = ""
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", name, st.Name())
	for i := 0; i < st.NumField(); i++ {
		field := st.Field(i)
		json := strings.Split(field.Tag.Get("json"), ",")
		if json[0] == "-" || !field.IsExported() {
			continue
		}
		flags := ""
		for _, option := range json[1:] {
			switch option {
			case "omitempty":
				flags += "e"
			case "omitzero":
				flags += "z"
			case "inline":
			default:
				log.Fatalf("%s.%s: unknown JSON option %q", name, field.Name, option)
			}
		}
		if json[0] == "" {
			flags += "i"
			json[0] = "-"
		}
		// The tag's wire type is not reliable (and not needed: the Go type says it), its number is.
		number := 0
		if tag := strings.Split(field.Tag.Get("protobuf"), ","); len(tag) > 1 {
			var err error
			number, err = strconv.Atoi(tag[1])
			must(err)
		}
		expression := t.expression(field.Type)
		line := fmt.Sprintf(" %s %d %s", json[0], number, expression)
		if goType := strip(field.Type).String(); goType != plain(strip(field.Type)) {
			line += "=" + goType
		}
		value := t.schemas.scalarDefault(name, json[0])
		if field.Type.Kind() != reflect.Pointer && (value == `""` || value == "0" || value == "false") {
			value = ""
		}
		if flags == "" && value != "" {
			flags = "-"
		}
		line = strings.TrimSpace(line + " " + flags + " " + value)
		out.WriteString(" " + line + "\n")
	}
	t.lines[name] = out.String()
	return name
}

func strip(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// plain is the Go name that a reader of the table can derive; all others are written out.
func plain(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return t.String()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "[]uint8"
		}
		return "[]" + plain(t.Elem())
	case reflect.Map:
		return "map[string]" + plain(t.Elem())
	}
	return t.Kind().String()
}

func (t *types) expression(ft reflect.Type) string {
	wrapped := ""
	if _, ok := reflect.New(ft).Interface().(interface{ Marshal() ([]byte, error) }); ok && ft.Kind() == reflect.Slice {
		wrapped = "<>"
	}
	if name, ok := special[ft.String()]; ok {
		return name
	}
	switch ft.Kind() {
	case reflect.Pointer:
		return "*" + t.expression(ft.Elem())
	case reflect.Slice:
		if ft.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return wrapped + "[]" + t.expression(ft.Elem())
	case reflect.Map:
		return "{}" + t.expression(ft.Elem())
	case reflect.Struct:
		return "@" + t.add(ft)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return ft.Kind().String()
	}
	log.Fatalf("no rule for %s", ft)
	return ""
}

func (t *types) text() []byte {
	var out bytes.Buffer
	for _, name := range sortedKeys(t.lines) {
		out.WriteString(t.lines[name])
	}
	return out.Bytes()
}

// encodeObject turns JSON into what kubectl sends as application/vnd.kubernetes.protobuf.
func encodeObject() {
	source, err := io.ReadAll(os.Stdin)
	must(err)
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(source, nil, nil)
	must(err)
	must(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object.(runtime.Object), os.Stdout))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
