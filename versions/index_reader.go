package versions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// No library for YAML reads a document in parts, and an index may have 64 MiB. This reader finds the entries of the wanted charts by
// the indentation of lines, as in the files that Helm and servers of charts write, and passes only the few lines of a version that it
// needs to the library. It refuses other styles, such as a flow mapping ({...}) around the entries, unless the whole index is JSON.

const (
	maxIndexLine  = 64 << 10 // bytes of a line that are looked at
	maxIndexEntry = 64 << 10 // bytes of the lines of a version that are decoded
	maxJSONEntry  = 4 << 20  // bytes of a version, or of a token, of an index in JSON
	maxJSONDepth  = 100
)

// entry is one version of a chart in an index.
type entry struct {
	Version string `json:"version" yaml:"version"`
	Created string `json:"created" yaml:"created"`
	Digest  string `json:"digest"  yaml:"digest"`
}

// A chart of an index that is wanted: add receives each of its versions, and returns false if it wants no more. A nil entry is one that
// cannot be read.
type chart struct {
	add   func(e *entry) bool
	found bool
	full  bool
}

var (
	errNoIndex    = errors.New("the answer is not the index of a Helm repository: it has no entries")
	errIndexStyle = errors.New("the index is not in a supported style: it must be JSON, or YAML with entries and charts in lines of their own")
)

// readIndex reads the index of a Helm repository once, and passes the versions of the wanted charts on.
func readIndex(r io.Reader, charts map[string]*chart) error {
	in := bufio.NewReaderSize(r, maxIndexLine)
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = in.Discard(3)
	}
	for {
		c, err := in.ReadByte()
		if err == io.EOF {
			return errNoIndex
		}
		if err != nil {
			return err
		}
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		_ = in.UnreadByte()
		if c == '{' {
			return readJSONIndex(in, charts)
		}
		return (&indexLines{in: in, charts: charts, itemIndent: -1}).read()
	}
}

// indexLines reads an index in YAML, line by line.
type indexLines struct {
	in     *bufio.Reader
	charts map[string]*chart

	inEntries, hasEntries bool
	chartIndent           int    // of the names of charts; 0: not known yet
	chart                 *chart // nil: not a wanted one
	chartName             bool   // the name of a chart was read
	itemIndent            int    // of the "-" of versions; -1: not known yet
	item                  indexItem
}

// indexItem collects the lines of one version.
type indexItem struct {
	open    bool
	key     int // indentation of its keys; -1: not known yet
	collect bool
	whole   bool // all lines are collected: its first line is not a plain key
	broken  bool
	simple  bool // every collected line is "key: value" with a value that needs no decoding
	fields  entry
	lines   []byte
}

// nextLine returns a line without its end. Only the beginning of a long line is returned.
func (x *indexLines) nextLine() ([]byte, error) {
	line, err := x.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = x.in.ReadSlice('\n')
		}
	}
	if err == io.EOF && len(line) > 0 {
		err = nil
	}
	return bytes.TrimRight(line, "\r\n"), err
}

func (x *indexLines) read() error {
	for {
		line, err := x.nextLine()
		if err == io.EOF { //nolint:errorlint // see nextLine
			break
		}
		if err != nil {
			return err
		}
		content := bytes.TrimLeft(line, " ")
		indent := len(line) - len(content)
		if len(bytes.TrimRight(content, " \t")) == 0 {
			x.item.append(line)
			continue
		}
		if content[0] == '#' && (!x.item.open || indent <= x.item.key) { // else, it could be text
			continue
		}
		if err := x.line(indent, content, line); err != nil {
			return err
		}
	}
	x.endItem()
	if !x.hasEntries {
		return errNoIndex
	}
	return nil
}

// line reads a line that is not empty.
func (x *indexLines) line(indent int, content, line []byte) error {
	switch {
	case indent == 0:
		return x.topLine(content)
	case !x.inEntries:
		return nil
	case x.chartIndent == 0:
		x.chartIndent = indent
	}
	dash := content[0] == '-' && (len(content) == 1 || content[1] == ' ')
	switch {
	case indent < x.chartIndent:
		return errIndexStyle
	case indent == x.chartIndent && !dash:
		return x.chartLine(content)
	case !x.chartName:
		return errIndexStyle
	case x.chart == nil: // an unwanted chart
		return nil
	case x.itemIndent < 0 && !dash:
		return errIndexStyle
	case x.itemIndent < 0:
		x.itemIndent = indent
	}
	switch {
	case indent == x.itemIndent && dash:
		x.endItem()
		x.item = indexItem{open: true, key: -1, simple: true, lines: x.item.lines[:0]}
		rest := bytes.TrimLeft(content[1:], " ")
		if len(rest) == 0 || rest[0] == '#' {
			return nil
		}
		at := indent + len(content) - len(rest)
		spaces := bytes.Repeat([]byte(" "), at)
		x.item.line(at, rest, append(spaces, rest...))
	case indent > x.itemIndent:
		x.item.line(indent, content, line)
	default:
		return errIndexStyle
	}
	return nil
}

// topLine reads a line without indentation.
func (x *indexLines) topLine(content []byte) error {
	switch {
	case content[0] == '#', content[0] == '%', bytes.HasPrefix(content, []byte("---")) && !x.hasEntries:
		return nil
	case content[0] == '-' && !x.inEntries: // an item of a list that is not read
		return nil
	}
	key, value, ok := cutKey(content)
	switch {
	case ok:
	case x.inEntries:
		return errIndexStyle
	case x.hasEntries: // after the entries, nothing is read
		return nil
	default:
		return errNoIndex
	}
	x.endItem()
	x.inEntries, x.chartName, x.chart, x.itemIndent = false, false, nil, -1
	if key != "entries" {
		return nil
	}
	if x.hasEntries {
		return errIndexStyle
	}
	x.hasEntries = true
	switch string(value) {
	case "":
		x.inEntries = true
	case "{}", "null", "~":
	default:
		return errIndexStyle
	}
	return nil
}

// chartLine reads the name of a chart.
func (x *indexLines) chartLine(content []byte) error {
	x.endItem()
	name, value, ok := cutKey(content)
	if !ok {
		return errIndexStyle
	}
	x.chartName, x.itemIndent = true, -1
	if x.chart = x.charts[name]; x.chart == nil {
		return nil
	}
	if x.chart.found { // twice
		return errIndexStyle
	}
	x.chart.found = true
	switch string(value) {
	case "", "[]", "null", "~":
		return nil
	}
	return errIndexStyle
}

// line reads a line of a version.
func (i *indexItem) line(indent int, content, line []byte) {
	if i.key < 0 {
		i.key = indent
		if _, _, ok := cutKey(content); !ok {
			i.whole, i.collect, i.simple = true, true, false
		}
	}
	switch {
	case i.whole:
	case indent < i.key:
		i.broken = true
	case indent == i.key:
		key, value, ok := cutKey(content)
		if !ok && content[0] == '-' && !i.collect { // an item of a list without indentation
			return
		}
		i.collect = !ok || key == "version" || key == "created" || key == "digest"
		if i.collect {
			i.simple = ok && i.set(key, value) && i.simple
		}
	default:
		if i.collect {
			i.simple = false // the value continues
		}
	}
	i.append(line)
}

// set sets a field to a value that needs no decoding, and returns false for another one, or a repeated field.
func (i *indexItem) set(key string, value []byte) bool {
	field := &i.fields.Version
	switch key {
	case "created":
		field = &i.fields.Created
	case "digest":
		field = &i.fields.Digest
	}
	text, ok := simpleScalar(value)
	if !ok || *field != "" {
		return false
	}
	*field = text
	return true
}

// append collects a line.
func (i *indexItem) append(line []byte) {
	switch {
	case !i.open || !i.collect:
	case len(i.lines)+len(line) > maxIndexEntry:
		i.broken = true
	default:
		i.lines = append(append(i.lines, line...), '\n')
	}
}

// endItem passes a version on.
func (x *indexLines) endItem() {
	i := &x.item
	if !i.open || x.chart == nil || x.chart.full {
		i.open = false
		return
	}
	i.open = false
	var e *entry
	switch {
	case i.broken:
	case i.simple:
		e = &entry{i.fields.Version, i.fields.Created, i.fields.Digest}
	default:
		e = decodeEntry(i.lines)
	}
	x.chart.full = !x.chart.add(e)
}

// decodeEntry decodes the lines of a version; nil: they are not valid.
func decodeEntry(lines []byte) *entry {
	var e entry
	if err := yaml.Unmarshal(lines, &e); err != nil {
		return nil
	}
	return &e
}

// cutKey separates a line into a key and a value without its comment.
func cutKey(content []byte) (key string, value []byte, ok bool) {
	var rest []byte
	switch c := content[0]; c {
	case '"', '\'':
		end := bytes.IndexByte(content[1:], c)
		if end < 0 {
			return "", nil, false
		}
		key, rest = string(content[1:end+1]), content[end+2:]
		if strings.ContainsAny(key, `\`) || len(rest) == 0 || rest[0] != ':' {
			return "", nil, false
		}
	case '{', '[', '&', '*', '!', '|', '>', '%', '@', '`', '?', ',', ']', '}', '#':
		return "", nil, false
	default:
		at := bytes.IndexByte(content, ':')
		if at <= 0 || c == '-' && (len(content) == 1 || content[1] == ' ') {
			return "", nil, false
		}
		key, rest = string(content[:at]), content[at:]
	}
	rest = rest[1:]
	if len(rest) > 0 && rest[0] != ' ' && rest[0] != '\t' || strings.ContainsAny(key, " \t") {
		return "", nil, false
	}
	value = bytes.Trim(rest, " \t")
	if len(value) > 0 && value[0] == '#' {
		value = nil
	}
	return key, value, true
}

// simpleScalar returns the text of a plain or quoted scalar that contains nothing that YAML interprets.
func simpleScalar(value []byte) (string, bool) {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	} else if len(value) == 0 || string(value) == "null" {
		return "", false
	}
	for _, c := range value {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(".+-_:/", c) < 0 {
			return "", false
		}
	}
	if len(value) == 0 || value[0] == '-' || value[len(value)-1] == ':' {
		return "", false
	}
	return string(value), true
}

// boundedReader limits what a JSON decoder may read for one token or value, which it keeps in memory.
type boundedReader struct {
	io.Reader

	read, allowed int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.read >= b.allowed {
		return 0, errTooLarge
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), b.allowed-b.read)])
	b.read += int64(n)
	return n, err
}

// jsonIndex reads an index in JSON, token by token.
type jsonIndex struct {
	in  *boundedReader
	dec *json.Decoder
}

func readJSONIndex(r io.Reader, charts map[string]*chart) error {
	in := &boundedReader{Reader: r}
	j := &jsonIndex{in: in, dec: json.NewDecoder(in)}
	hasEntries := false
	err := j.object(func(key string) error {
		if key != "entries" {
			return j.skip()
		}
		if hasEntries {
			return errIndexStyle
		}
		hasEntries = true
		return j.object(func(name string) error {
			one := charts[name]
			if one == nil {
				return j.skip()
			}
			if one.found {
				return errIndexStyle
			}
			one.found = true
			return j.versions(one)
		})
	})
	if err == nil && !hasEntries {
		err = errNoIndex
	}
	return err
}

// token reads a token.
func (j *jsonIndex) token() (json.Token, error) {
	j.in.allowed = j.dec.InputOffset() + maxJSONEntry
	token, err := j.dec.Token()
	return token, jsonError(err)
}

// jsonError replaces the errors of the decoder, which contain text of the registry.
func jsonError(err error) error {
	var known *Error
	if err == nil || errors.Is(err, errTooLarge) || errors.As(err, &known) {
		return err
	}
	return errors.New("the index is not valid JSON")
}

// object reads an object, or null, and calls value to read each value.
func (j *jsonIndex) object(value func(key string) error) error {
	token, err := j.token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('{') {
		return errIndexStyle
	}
	for {
		if token, err = j.token(); err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok { // the end
			return nil
		}
		if err := value(key); err != nil {
			return err
		}
	}
}

// versions reads the list of versions of a chart.
func (j *jsonIndex) versions(one *chart) error {
	token, err := j.token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return errIndexStyle
	}
	for {
		j.in.allowed = j.dec.InputOffset() + maxJSONEntry
		if !j.dec.More() {
			_, err := j.token()
			return err
		}
		if one.full {
			if err := j.skip(); err != nil {
				return err
			}
			continue
		}
		e := &entry{}
		var wrong *json.UnmarshalTypeError
		if err := j.dec.Decode(e); errors.As(err, &wrong) {
			e = nil
		} else if err != nil {
			return jsonError(err)
		}
		one.full = !one.add(e)
	}
}

// skip reads a value.
func (j *jsonIndex) skip() error {
	for depth := 0; ; {
		token, err := j.token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxJSONDepth {
				return errors.New("the index is nested too deeply")
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
