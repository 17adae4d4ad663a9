package helm_test

import (
	"strings"
	"testing"
)

const (
	onSQLite   = "auth: {existingSecret: x}\n"
	onPostgres = "auth: {existingSecret: x}\nstore: {backend: postgres, postgres: {existingSecret: p}}\n"
)

// want compares a field of an object with JSON.
func want(t *testing.T, found map[string]object, key, json string, path ...string) {
	t.Helper()
	o, is := found[key]
	if !is {
		t.Errorf("there is no %s", key)
	} else if got := o.at(path...); got != json {
		t.Errorf("%s: %s is %s, not %s", key, strings.Join(path, "."), got, json)
	}
}

// The job can run wherever the pod is beside which it has to run, and so can the pods of `helm test`.
func TestTheBackupRunsWhereTheServiceDoes(t *testing.T) {
	t.Parallel()
	const crud = "backup: {enabled: true}\ncrud: {nodeSelector: {pool: infra}, tolerations: [{key: dedicated, value: infra, effect: NoSchedule}], priorityClassName: high}\n"
	job, test := []string{"spec", "jobTemplate", "spec", "template", "spec"}, []string{"spec"}
	for _, values := range []string{onSQLite + crud, onPostgres + crud} {
		found := valid(t, service, values)
		for key, path := range map[string][]string{"CronJob flux-api-backup": job, "Pod flux-api-test": test, "Pod flux-api-read-test": test} {
			want(t, found, key, `{"pool":"infra"}`, append(path, "nodeSelector")...)
			want(t, found, key, `[{"effect":"NoSchedule","key":"dedicated","value":"infra"}]`, append(path, "tolerations")...)
			want(t, found, key, `"high"`, append(path, "priorityClassName")...)
		}
	}
}
