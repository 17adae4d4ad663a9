// Package windows reads and writes times of the week as people type them: `tue-thu 10:00-16:00 Europe/Berlin`.
package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// days of the week, in the order of ranges such as mon-thu.
var days = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

const (
	form           = "[DAYS ]FROM-TO[ ZONE], such as 'mon-thu,sat 10:00-16:00 Europe/Berlin'"
	variablePrefix = "${vars."
)

// Parse reads a window. Without days it is every day, without a zone in UTC; `${vars.NAME}` for the zone is a variable of each
// cluster. Times and zones are checked by the server.
func Parse(text string) (w api.Window, err error) {
	words := strings.Fields(text)
	if len(words) > 0 && !strings.Contains(words[0], ":") {
		if w.Days, err = parseDays(words[0]); err != nil {
			return w, err
		}
		words = words[1:]
	}
	if len(words) == 0 || len(words) > 2 {
		return w, fmt.Errorf("%q is not %s", text, form)
	}
	from, to, ok := strings.Cut(words[0], "-")
	if !ok {
		return w, fmt.Errorf("%q is not %s", text, form)
	}
	w.From, w.To = clock(from), clock(to)
	if len(words) == 1 {
		return w, nil
	}
	if name, isVariable := strings.CutPrefix(words[1], variablePrefix); isVariable {
		w.TzVariable = strings.TrimSuffix(name, "}")
	} else {
		w.Tz = words[1]
	}
	return w, nil
}

// clock returns a time of the day with two digits for the hour.
func clock(text string) string {
	if strings.Index(text, ":") == 1 {
		return "0" + text
	}
	return text
}

// parseDays reads days such as mon-thu,sat. A range may pass the end of the week.
func parseDays(text string) (out []string, err error) {
	for part := range strings.SplitSeq(strings.ToLower(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, to := slices.Index(days, first), slices.Index(days, cmp.Or(last, first))
		if from < 0 || to < 0 || isRange && last == "" {
			return nil, fmt.Errorf("%q is no day or range of days: %s", part, strings.Join(days, ", "))
		}
		for day := from; ; day = (day + 1) % len(days) {
			if !slices.Contains(out, days[day]) {
				out = append(out, days[day])
			}
			if day == to {
				break
			}
		}
	}
	return out, nil
}

// Text writes windows, separated by semicolons. Three or more days in a row are a range.
func Text(windows []api.Window) string {
	texts := make([]string, len(windows))
	for i, w := range windows {
		zone := cmp.Or(w.Tz, "UTC")
		if w.TzVariable != "" {
			zone = variablePrefix + w.TzVariable + "}"
		}
		texts[i] = strings.TrimSpace(daysText(w.Days) + " " + w.From + "-" + w.To + " " + zone)
	}
	return strings.Join(texts, "; ")
}

func daysText(of []string) string {
	var parts []string
	for i := 0; i < len(days); i++ {
		end := i
		for end < len(days) && slices.Contains(of, days[end]) {
			end++
		}
		switch n := end - i; {
		case n > 2:
			parts = append(parts, days[i]+"-"+days[end-1])
		default:
			parts = append(parts, days[i:end]...)
		}
		i = end
	}
	return strings.Join(parts, ",")
}
