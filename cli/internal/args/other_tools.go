package args

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// otherTools has commands of kubectl, helm, Flux and Argo CD, each with the one to use here. If the meaning of a word depends on the
// command before it, both are in the key. KIND stands for the command before the verb.
var otherTools = map[string]string{
	"rollout status":           "get rollout NAME",
	"rollout describe":         "get rollout NAME",
	"rollout undo":             "rollout back NAME for the last stage, or rollout abort NAME",
	"rollout rollback":         "rollout back NAME for the last stage, or rollout abort NAME",
	"rollout restart":          "reconcile cluster NAME",
	"rollout promote":          "rollout start NAME",
	"rollout stop":             "rollout pause NAME, or rollout abort NAME",
	"rollout cancel":           "rollout abort NAME",
	"rollout suspend":          "rollout pause NAME",
	"component policy suspend": "component policy set NAME --suspended",
	"component policy resume":  "component policy set NAME --suspended=false",
	"component policy show":    "get component NAME",
	"component enable":         "component set NAME --enabled, with --cluster, --selector, --all or --layer",
	"component disable":        "component set NAME --enabled=false, with --cluster, --selector, --all or --layer",
	"cluster protect":          "cluster set NAME --deletion-protection, or --deletion-protection=false",
	"cluster suspend":          "cluster pin NAME",
	"cluster resume":           "cluster unpin NAME",

	"freeze delete":   "unfreeze NAME",
	"delete freeze":   "unfreeze NAME",
	"token delete":    "token revoke NAME",
	"delete token":    "token revoke NAME",
	"delete revision": "revision revert REVISION",

	"logs":      "cluster status NAME",
	"events":    "cluster status NAME",
	"undo":      "revision revert REVISION",
	"rollback":  "revision revert REVISION",
	"upgrade":   "component set NAME --component-version VERSION",
	"install":   "component assign NAME --cluster CLUSTER",
	"uninstall": "component unassign NAME --cluster CLUSTER",
	"scale":     "component set NAME --cluster CLUSTER --set PATH=VALUE",
	"sync":      "reconcile cluster NAME",
	"window":    "freeze create NAME --allow WINDOW",
	"windows":   "freeze create NAME --allow WINDOW",
	"whoami":    "auth whoami",
	"describe":  "get KIND NAME",
	"show":      "get KIND NAME",
}

// suggestCommand returns the command of this program that does what a word after these commands does in another tool, or "".
func suggestCommand(app *cli.App, path []*cli.Command, word string) string {
	if len(path) == 0 {
		return otherTools[word]
	}
	last := path[len(path)-1]
	if own, known := otherTools[strings.TrimPrefix(last.HelpName, Program+" ")+" "+word]; known {
		return own
	}
	verb, name, ofKind := strings.Cut(otherTools[word], " KIND ")
	switch kind := strings.TrimPrefix(last.HelpName, Program+" "); {
	case !ofKind:
		return otherTools[word]
	case FindCommand(kindsOf(app, verb), last.Name) == nil:
		return ""
	default:
		return verb + " " + kind + " " + name
	}
}
