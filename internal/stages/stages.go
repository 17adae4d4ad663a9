// Package stages reads stages of rollouts as people type them: `prod=environment=prod:10%:approve`.
package stages

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Parse reads a stage: NAME=SELECTOR[:COUNT or :PERCENT%][:soak=DURATION][:approve]. The selector * selects all clusters. The server checks
// names and selectors.
func Parse(text string) (stage api.RolloutStage, err error) {
	name, selector, ok := strings.Cut(text, "=")
	if !ok || name == "" || selector == "" {
		return stage, fmt.Errorf("%q is not NAME=SELECTOR", text)
	}
	selector, options, some := strings.Cut(selector, ":")
	if stage.Name, stage.Selector = name, selector; selector == "*" {
		stage.Selector, stage.All = "", true
	}
	if !some {
		return stage, nil
	}
	for option := range strings.SplitSeq(options, ":") {
		number, percent := strings.CutSuffix(option, "%")
		n, notNumber := strconv.Atoi(number)
		soak, isSoak := strings.CutPrefix(option, "soak=")
		switch {
		case option == "approve":
			stage.Approval = true
		case isSoak && soak != "":
			stage.Gate = &api.RolloutGate{Soak: soak}
		case notNumber == nil && n > 0 && percent:
			stage.Percent = n
		case notNumber == nil && n > 0:
			stage.Count = n
		default:
			return stage, fmt.Errorf("%q: after a colon there must be a number of clusters, a number and %%, soak=DURATION, or approve", text)
		}
	}
	return stage, nil
}
