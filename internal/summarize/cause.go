package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxCause is the limit of a cause in characters.
	maxCause = 240
	// maxCauseInput is how much of a message is read, in bytes. A message of an event has at most 2 KiB.
	maxCauseInput = 4 << 10
	// minKnownName is the length of the shortest name that is replaced by context: a shorter one is likely a word.
	minKnownName = 3
)

// Placeholders in a cause.
const (
	causeName   = "<name>"   // names, paths, versions with letters
	causeNumber = "<n>"      // numbers, quantities, durations, versions
	causeDigest = "<digest>" // digests and UUIDs
	causeTime   = "<time>"
	causeIP     = "<ip>"
	causeURL    = "<url>"
)

// FailureNames are names that the message of a failure may contain and that differ from cluster to cluster; empty: not known.
type FailureNames struct {
	Cluster, ClusterDNS string
	Object              string // kind, namespace and name: HelmRelease/flux-system/platform-podinfo
	Input               string // its id, such as that of a component
}

// Cause returns the message of a failure without the names, numbers and digests in it, so that clusters that fail for the same reason have
// the same cause. It has at most maxCause characters on one line, and is empty only for an empty message. It takes linear time. The text
// remains untrusted.
//
// Placeholders replace quoted names, paths, URLs, addresses, times, and words with digits. Names of types, fields and webhooks stay, and
// so do codes: "not found" and "unauthorized" are different causes, and so are two missing kinds.
func Cause(message string, known FailureNames) string {
	if message == "" {
		return ""
	}
	text := strings.ToValidUTF8(message[:min(len(message), maxCauseInput)], "\uFFFD")
	text = strings.Join(strings.FieldsFunc(withoutLogs(text), func(r rune) bool {
		return r <= ' ' || r >= 0x7f && (unicode.IsSpace(r) || !unicode.IsGraphic(r))
	}), " ")
	if rest := helmPrefix.ReplaceAllString(text, ""); rest != "" {
		text = rest
	}
	for _, one := range known.placeholders() {
		text = replaceName(text, one.name, one.placeholder)
	}
	text = normalizeWords(text)
	for _, prefix := range []string{"<n> error occurred: ", "<n> errors occurred: "} { // one or many objects
		if rest, found := strings.CutPrefix(text, prefix); found && rest != "" {
			text = strings.TrimPrefix(rest, "* ")
		}
	}
	text = shorten(withoutRepetition(text), maxCause)
	if text == "" {
		return "no message"
	}
	return text
}

type knownName struct{ name, placeholder string }

// placeholders returns the names to replace, the longest of those that contain each other first.
func (k FailureNames) placeholders() []knownName {
	out := []knownName{{k.ClusterDNS, "<cluster>"}, {k.Cluster, "<cluster>"}}
	if parts := strings.Split(k.Object, "/"); len(parts) == 3 {
		out = append(out, knownName{parts[1] + "/" + parts[2], "<object>"}, knownName{parts[2], "<object>"}, knownName{parts[1], "<namespace>"})
	}
	return append(out, knownName{k.Input, "<input>"})
}

// replaceName replaces a name where it is no part of a longer word.
func replaceName(text, name, placeholder string) string {
	if len(name) < minKnownName {
		return text
	}
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			if b.Len() == 0 {
				return text
			}
			return b.String() + text[from:]
		}
		start, end := from+i, from+i+len(name)
		b.WriteString(text[from:start])
		if start > 0 && isWordByte(text[start-1]) || end < len(text) && isWordByte(text[end]) {
			b.WriteString(name)
		} else {
			b.WriteString(placeholder)
		}
		from = end
	}
}

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '<' || c >= utf8.RuneSelf
}

// separators end a word. A colon and a slash do not: they are parts of addresses and paths.
const separators = " ,;()[]{}=|\\\"'`"

var isSeparator = func() (table [256]bool) {
	for i := range len(separators) {
		table[separators[i]] = true
	}
	return table
}()

func wordLength(text string) int {
	for i := range len(text) {
		if isSeparator[text[i]] {
			return i
		}
	}
	return len(text)
}

// normalizeWords replaces the words and the quoted names of a text.
func normalizeWords(text string) string {
	var b strings.Builder
	previous := ""
	for text != "" {
		if quoted, quote := quotedName(text); quote != "" {
			b.WriteString(quote + normalizeQuoted(quoted, previous) + quote)
			text, previous = text[len(quoted)+2*len(quote):], ""
			continue
		}
		if n := bracketedIP(text); n > 0 {
			b.WriteString(causeIP)
			text, previous = text[n:], ""
			continue
		}
		end := wordLength(text)
		if end == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		word := text[:end]
		core := strings.TrimRight(word, ":.!?…*")
		if isStatus(text) {
			previous = "status"
		}
		b.WriteString(normalizeWord(core, previous) + word[len(core):])
		text, previous = text[end:], core
	}
	return b.String()
}

// isStatus reports whether a text begins with an HTTP status and its name, such as 401 Unauthorized.
func isStatus(text string) bool {
	return len(text) > 4 && '1' <= text[0] && text[0] <= '5' && isOnly(text[:3], "0123456789") && text[3] == ' ' && 'A' <= text[4] && text[4] <= 'Z'
}

// bracketedIP returns the length of the IPv6 address in brackets at the beginning of a text, with its port; 0: there is none.
func bracketedIP(text string) int {
	end := strings.IndexByte(text[:min(len(text), 48)], ']')
	if text[0] != '[' || end < 0 || !isAddress(text[1:end]) {
		return 0
	}
	rest := strings.TrimPrefix(text[end+1:], ":")
	return len(text) - len(strings.TrimLeft(rest, "0123456789"))
}

// quotedName returns the text between the quotes at the beginning of a text, if it is one word. quote is empty when it is not.
func quotedName(text string) (inside, quote string) {
	quote = text[:1]
	if !strings.Contains("\"'`", quote) {
		return "", ""
	}
	end := strings.IndexByte(text[1:], quote[0])
	if end <= 0 || strings.IndexByte(text[1:1+end], ' ') >= 0 {
		return "", ""
	}
	return text[1 : 1+end], quote
}

// wordsBeforeTypes precede the quoted names of types, webhooks and states, which tell causes apart. Their numbers and digests are replaced
// all the same.
var wordsBeforeTypes = map[string]bool{"kind": true, "version": true, "webhook": true, "field": true, "key": true, "resource": true, "status": true, "type": true, "strategy": true, "policy": true, "verb": true, "group": true, "API": true}

// normalizeQuoted replaces a quoted name, unless it has capital letters, as only types, fields and codes have, or follows a word that
// precedes types.
func normalizeQuoted(quoted, previous string) string {
	isType := strings.IndexFunc(quoted, unicode.IsUpper) >= 0 && !strings.ContainsAny(quoted, "/\\:") || wordsBeforeTypes[previous]
	if normal := normalizeWord(quoted, previous); isType || normal != quoted && normal != causeName {
		return normal
	}
	return causeName
}

// wordsBeforeCodes precede numbers that tell causes apart.
var wordsBeforeCodes = map[string]bool{"code": true, "status": true, "exit": true, "HTTP": true, "error": true, "errno": true}

// plainWords have digits or slashes, and are the same in all messages.
var plainWords = map[string]bool{
	"x509": true, "http2": true, "http/2": true, "base64": true, "sha1": true, "sha256": true, "ipv4": true, "ipv6": true, "oauth2": true, "k8s": true, "s3": true, "utf8": true, "utf-8": true,
	"md5": true, "i/o": true, "and/or": true, "n/a": true, "tcp/ip": true, "read/write": true,
}

// normalizeWord returns the placeholder of a word that differs from cluster to cluster, or else the word.
func normalizeWord(word, previous string) string {
	digits := strings.ContainsAny(word, "0123456789")
	switch {
	case strings.Contains(word, "://"):
		return causeURL
	case previous == "lookup": // a host, in errors of DNS
		return causeName
	case !digits && !strings.Contains(word, "/"), isAPIVersion(word), plainWords[strings.ToLower(word)]:
		return word
	case len(word) <= 3 && isOnly(word, "0123456789") && wordsBeforeCodes[previous]:
		return word
	case isTime(word):
		return causeTime
	case isDigest(word):
		return causeDigest
	case isAddress(word):
		return causeIP
	case digits && isQuantity(word):
		return causeNumber
	}
	if kind, name, ok := strings.Cut(word, "/"); ok && isKind(kind) && name != "" {
		return kind + "/" + causeName // HelmRelease/flux-system/podinfo
	}
	if at := strings.LastIndexByte(word, ':'); at > 0 && isOnly(word[at+1:], "0123456789") && word[at+1:] != "" && !strings.ContainsAny(word[:at], "/0123456789") {
		return word[:at+1] + causeNumber // registry:5000, line:12
	}
	return causeName
}

// isKind reports whether a word is the name of a kind of Kubernetes objects, such as HelmRelease.
func isKind(word string) bool {
	return len(word) > 2 && 'A' <= word[0] && word[0] <= 'Z' && isOnly(word, letters) && word != strings.ToUpper(word)
}

const (
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	letters      = lowerLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	hexDigits    = "0123456789abcdefABCDEF"
)

func isOnly(word, allowed string) bool { return strings.Trim(word, allowed) == "" }

// isAPIVersion reports whether a word is v1, v1beta1, apps/v1, or monitoring.coreos.com/v1.
func isAPIVersion(word string) bool {
	if group, version, ok := strings.Cut(word, "/"); ok {
		if !isOnly(group, lowerLetters+".-") {
			return false
		}
		word = version
	}
	rest, ok := strings.CutPrefix(word, "v")
	major := strings.TrimLeft(rest, "0123456789")
	if !ok || major == rest || len(rest)-len(major) > 2 {
		return false
	}
	minor := strings.TrimPrefix(strings.TrimPrefix(major, "alpha"), "beta")
	return major == "" || minor != major && len(minor) <= 2 && isOnly(minor, "0123456789")
}

// isTime reports whether a word begins as a date, 2026-01-02, or is a time, 03:04:05.
func isTime(word string) bool {
	pattern := func(form string) bool {
		if len(word) < len(form) {
			return false
		}
		for i := range len(form) {
			if isDigit := '0' <= word[i] && word[i] <= '9'; form[i] == '0' && !isDigit || form[i] != '0' && word[i] != form[i] {
				return false
			}
		}
		return true
	}
	return pattern("0000-00-00") || pattern("00:00:00")
}

// isDigest reports whether a word is a UUID or a hexadecimal digest, perhaps after a name: sha256:…, latest@sha256:….
func isDigest(word string) bool {
	if at := strings.LastIndexAny(word, ":@"); at >= 0 && !strings.Contains(word, "/") {
		word = word[at+1:]
	}
	return len(word) >= 8 && strings.ContainsAny(word, "0123456789") && strings.ContainsAny(word, "abcdefABCDEF") && isOnly(word, hexDigits+"-")
}

// isAddress reports whether a word is an IP address, perhaps with a port or a prefix length.
func isAddress(word string) bool {
	return strings.Count(word, ".") == 3 && isOnly(word, "0123456789./:") || strings.Count(word, ":") >= 2 && isOnly(word, hexDigits+":[]")
}

// isQuantity reports whether a word is a number, alone or with a unit, a version, a range or a duration: 5m0s, 100Mi, 6.9.0, 3/5, >=1.2.
func isQuantity(word string) bool {
	word = strings.TrimPrefix(strings.TrimLeft(word, "<>=~^+-#$@"), "v")
	if word == "" || word[0] < '0' || word[0] > '9' {
		return false
	}
	run := 0 // of letters
	for i := range len(word) {
		switch c := word[i]; {
		case strings.IndexByte("0123456789.,:/%+-_", c) >= 0:
			run = 0
		case strings.IndexByte(letters, c) >= 0 && run < 2:
			run++
		default:
			return false
		}
	}
	return true
}

// withoutRepetition removes the items of a list that equal the one before: failures name one or many objects, which differ in their names.
func withoutRepetition(text string) string {
	for _, separator := range []string{", ", "; ", " * "} {
		items := strings.Split(text, separator)
		if len(items) == 1 {
			continue
		}
		var out strings.Builder
		out.WriteString(items[0])
		last := items[0]
		for _, item := range items[1:] {
			if plain := strings.TrimRight(item, "])}."); plain != "" && strings.HasSuffix(last, plain) {
				out.WriteString(item[len(plain):])
				continue
			}
			out.WriteString(separator + item)
			last = item
		}
		text = out.String()
	}
	return text
}
