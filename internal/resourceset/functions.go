package resourceset

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	"github.com/gosimple/slug"
	"sigs.k8s.io/yaml"
)

// known returns the functions that Flux Operator documents, without a budget.
var known = sync.OnceValue(func() template.FuncMap {
	// The length of a label value; longer slugs are cut between words.
	slug.MaxLength, slug.EnableSmartTruncate = 63, true
	functions := sprig.HermeticTxtFuncMap()
	functions["slugify"] = slug.Make
	functions["mustToYaml"] = toYAML
	functions["toYaml"] = func(v any) string {
		text, err := toYAML(v)
		if err != nil {
			return "" // as the operator does: only mustToYaml fails
		}
		return text
	}
	// The template package's own text functions, so that the budget covers them too.
	functions["print"], functions["printf"], functions["println"] = fmt.Sprint, fmt.Sprintf, fmt.Sprintln
	functions["html"], functions["js"], functions["urlquery"] = template.HTMLEscaper, template.JSEscaper, template.URLQueryEscaper
	return functions
})

func toYAML(v any) (string, error) {
	text, err := yaml.Marshal(v)
	return string(text), err
}

// declared returns stubs of all functions, for the parser.
func declared() template.FuncMap {
	functions := maps.Clone(known())
	functions["inputs"] = func() any { return nil }
	functions[stepName] = func(int) string { return "" }
	functions[enterName] = func() string { return "" }
	functions[leaveName] = func() string { return "" }
	functions[outName] = func(v any) any { return v }
	return functions
}

// budget is the work that one execution may still do.
type budget struct {
	Limits
	used   int
	asked  int // units used at the last call of Stop
	nested int
	err    error
}

func (b *budget) exceeded(format string, args ...any) error {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s", ErrBudget, fmt.Sprintf(format, args...))
	}
	return b.err
}

// spend takes units from the budget. It panics if none remain; the template package turns that into an error. Not every
// function can return one.
func (b *budget) spend(units int) {
	const between = 4096
	b.used += units
	if b.used > b.Units || b.used < 0 {
		panic(b.exceeded("it takes more than %d steps", b.Units))
	}
	if b.Stop != nil && b.used-b.asked >= between {
		b.asked = b.used
		if err := b.Stop(); err != nil {
			b.err = err
			panic(err)
		}
	}
}

func (b *budget) functions(input map[string]any) template.FuncMap {
	functions := make(template.FuncMap, len(known())+5)
	for name, f := range known() {
		functions[name] = b.bounded(name, f)
	}
	functions["keys"] = b.bounded("keys", b.keys)
	functions["values"] = b.bounded("values", b.values)
	functions["inputs"] = func() any { return input }
	functions[stepName] = func(size int) string {
		const nodeBytes = 16
		b.spend(1 + size/nodeBytes)
		return ""
	}
	functions[enterName] = func() string {
		if b.nested++; b.nested > maxNested {
			panic(b.exceeded("its templates call each other more than %d levels deep", maxNested))
		}
		b.spend(1)
		return ""
	}
	functions[leaveName] = func() string {
		b.nested--
		return ""
	}
	functions[outName] = func(v any) any {
		b.size(reflect.ValueOf(v), 0)
		return v
	}
	return functions
}

// keys returns the keys of maps, of each map in order.
func (b *budget) keys(of ...map[string]any) []string {
	keys := []string{}
	for _, m := range of {
		keys = append(keys, b.ordered(m)...)
	}
	return keys
}

// values returns the values of a map in the order of their keys.
func (b *budget) values(m map[string]any) []any {
	values := make([]any, 0, len(m))
	for _, key := range b.ordered(m) {
		values = append(values, m[key])
	}
	return values
}

// ordered returns the keys of a map in the order of this execution.
func (b *budget) ordered(m map[string]any) []string {
	keys := slices.Sorted(maps.Keys(m))
	if b.Reversed {
		slices.Reverse(keys)
	}
	return keys
}

// shallow functions look at the containers they receive, not at the values inside.
var shallow = []string{
	"get", "set", "unset", "hasKey", "omit", "pick", "pluck", "keys", "values", "dict", "list", "tuple", "dig", "first", "last", "rest", "initial", "append", "push",
	"prepend", "concat", "slice", "ternary", "default", "empty", "coalesce", "kindIs", "kindOf", "typeIs", "typeOf", "typeIsLike", "all", "any",
}

// bounded wraps a function so that its arguments and its result are charged to the budget.
func (b *budget) bounded(name string, f any) any {
	of := reflect.ValueOf(f)
	weigh := b.size
	if slices.Contains(shallow, name) {
		weigh = b.width
	}
	return reflect.MakeFunc(of.Type(), func(args []reflect.Value) []reflect.Value {
		b.spend(1)
		for _, arg := range args {
			weigh(arg, 0)
		}
		b.growth(name, args)
		var out []reflect.Value
		if of.Type().IsVariadic() {
			out = of.CallSlice(args)
		} else {
			out = of.Call(args)
		}
		weigh(out[0], 0)
		return out
	}).Interface()
}

// size charges a value with everything in it.
func (b *budget) size(v reflect.Value, depth int) {
	v = dereferenced(v)
	b.spend(1)
	if depth > maxDepth {
		panic(b.exceeded("a value is nested more than %d levels deep", maxDepth))
	}
	switch v.Kind() { //nolint:exhaustive // all others have no parts
	case reflect.String:
		b.text(v.Len())
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			b.size(entries.Key(), depth+1)
			b.size(entries.Value(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		b.items(v.Len())
		for i := range v.Len() {
			b.size(v.Index(i), depth+1)
		}
	}
}

func dereferenced(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// width charges a value without its contents.
func (b *budget) width(v reflect.Value, _ int) {
	v = dereferenced(v)
	switch v.Kind() { //nolint:exhaustive // all others are of one size
	case reflect.String:
		b.text(v.Len())
	case reflect.Map, reflect.Slice, reflect.Array:
		b.items(v.Len())
		b.spend(v.Len())
	}
}

func (b *budget) text(n int) {
	const unitBytes = 64
	if n > b.Bytes {
		panic(b.exceeded("a text is larger than %d bytes", b.Bytes))
	}
	b.spend(n / unitBytes)
}

func (b *budget) items(n int) {
	if n > maxItems {
		panic(b.exceeded("a list has more than %d items", maxItems))
	}
}

// wide matches a printf width or precision of four or more digits, or one taken from an argument.
var wide = regexp.MustCompile(`%[^%a-zA-Z]*([0-9]{4,}|\*)`)

// growth refuses a call before it runs if its result would be much larger than its arguments.
func (b *budget) growth(name string, args []reflect.Value) {
	text := func(i int) string { return args[i].String() }
	number := func(i int) int { return int(args[i].Int()) }
	switch name {
	case "repeat":
		b.text(product(number(0), len(text(1))))
	case "replace":
		b.text(len(text(2)) + product(strings.Count(text(2), text(0)), len(text(1))))
	case "regexReplaceAll", "mustRegexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAllLiteral":
		n := product(len(text(1))+1, len(text(2)))
		b.text(n + product(strings.Count(text(2), "$")+1, len(text(1))))
	case "indent", "nindent":
		b.text(len(text(1)) + product(strings.Count(text(1), "\n")+1, number(0)))
	case "join":
		if list := dereferenced(args[1]); list.Kind() == reflect.Slice {
			b.text(product(list.Len(), len(text(0))))
		}
	case "printf":
		if wide.MatchString(text(0)) {
			panic(b.exceeded("a width or precision of printf is 1000 or more, or an argument"))
		}
		b.text(product(strings.Count(text(0), "%"), 1000)) //nolint:mnd // the largest width that wide lets through
	case "until":
		b.numbers(number(0))
	case "untilStep":
		b.numbers(number(0), number(1), number(2))
	case "seq":
		for i := range args[0].Len() {
			b.numbers(int(args[0].Index(i).Int()))
		}
	case "concat", "keys", "mustConcat":
		for i := range args[0].Len() {
			b.width(args[0].Index(i), 0)
		}
	case "uniq", "mustUniq", "without", "mustWithout": // each item is compared with all others
		if list := dereferenced(args[0]); list.Kind() == reflect.Slice {
			b.spend(product(list.Len(), list.Len()))
		}
	}
	if strings.HasPrefix(name, "regex") || strings.HasPrefix(name, "mustRegex") {
		b.pattern(text(0), args)
	}
}

// numbers refuses series that are too long or leave the range of integers.
func (b *budget) numbers(bounds ...int) {
	for _, n := range bounds {
		b.items(max(n, -max(n, -maxItems-1)))
	}
}

// pattern charges a regular expression, which may repeat its parts up to a thousand times, and the text that it is
// matched with.
func (b *budget) pattern(text string, args []reflect.Value) {
	const repetition, most, unit = 1000, 4096, 64
	if len(text) > most {
		panic(b.exceeded("a regular expression is larger than %d bytes", most))
	}
	size := len(text) + product(strings.Count(text, "{"), repetition)
	b.spend(size)
	if len(args) > 1 {
		b.spend(product(size, args[1].Len()) / unit)
	}
}

// product multiplies two sizes. On overflow it returns a number above every limit.
func product(a, b int) int {
	const most = 1 << 40
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > most/b {
		return most
	}
	return a * b
}
