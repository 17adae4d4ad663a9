package objectstore

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name locates an object: s3://BUCKET/KEY.
type Name struct{ Bucket, Key string }

func (n Name) String() string { return scheme + n.Bucket + "/" + n.Key }

const (
	scheme  = "s3://"
	longest = 1024 // bytes of a key
)

// IsName reports whether s is meant as an object's name rather than a file's.
func IsName(s string) bool { return strings.HasPrefix(strings.ToLower(s), "s3:") }

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// ParseName parses the name of an object and returns all problems with it.
func ParseName(s string) (Name, []string) {
	name, problems := parse(s)
	switch {
	case !strings.HasPrefix(s, scheme):
	case name.Key == "":
		problems = append(problems, fmt.Sprintf("the name of the object is missing: write %sBUCKET/KEY", scheme))
	case strings.HasSuffix(name.Key, "/"):
		problems = append(problems, "the key ends with a slash: it names no object")
	}
	return name, problems
}

// ParsePrefix parses a prefix of names: a bucket, or a directory in it. Its Key is empty or ends with a slash.
func ParsePrefix(s string) (Name, []string) {
	name, problems := parse(s)
	if name.Key = strings.TrimSuffix(name.Key, "/"); name.Key != "" {
		name.Key += "/"
	}
	return name, problems
}

// parse reports every part that servers or people could read in different ways. Problems never quote the text before an
// @, which may be a secret.
func parse(s string) (name Name, problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		problem("it must begin with %s", scheme)
		return name, problems
	}
	name.Bucket, name.Key, _ = strings.Cut(rest, "/")
	switch {
	case strings.Contains(name.Bucket, "@"):
		name.Bucket = ""
		problem("credentials do not belong into a name: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case strings.Contains(name.Bucket, ":"):
		problem("a bucket has no port: the server's address is a setting, --s3-endpoint")
	case !bucketName.MatchString(name.Bucket) || strings.Contains(name.Bucket, ".."):
		problem("the bucket is %q: it must have 3 to 63 lower-case letters, digits, dots and hyphens, and begin and end with a letter or digit", name.Bucket)
	}
	if len(name.Key) > longest {
		problem("the key has %d bytes, and S3 allows %d", len(name.Key), longest)
	}
	if !utf8.ValidString(name.Key) || strings.ContainsFunc(name.Key, unicode.IsControl) {
		problem("the key has bytes that are no text")
	}
	if strings.ContainsAny(name.Key, "?#") {
		problem("the key has a ? or a #: settings are flags and variables, and no part of the name")
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(name.Key, "/"), "/") {
		if name.Key != "" && (part == "" || part == "." || part == "..") {
			problem("the key has %q between slashes, which not all servers leave as it is", part)
			break
		}
	}
	return name, problems
}
