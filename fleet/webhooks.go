package fleet

import (
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// CreateWebhook adds a webhook. Revisions after that of this commit are delivered to it.
func (tx *Tx) CreateWebhook(body map[string]any) (*Document, error) {
	obj := jsontext.CopyObject(body)
	obj["generation"], obj["after"] = int64(1), int64(tx.base.Revision()+1)
	doc, err := tx.create(KindWebhook, obj)
	if err == nil {
		tx.recordWebhook("create", doc.ID, nil)
	}
	return doc, err
}

// PutWebhook replaces the fields of a webhook that are present in the body and not null. PatchWebhook applies an RFC 7396 merge
// patch. A URL as responses show it keeps the stored one.
func (tx *Tx) PutWebhook(id string, body map[string]any) (*Document, error) {
	return tx.updateWebhook("update", id, body, mergePut)
}

// PatchWebhook applies a merge patch: see PutWebhook.
func (tx *Tx) PatchWebhook(id string, body map[string]any) (*Document, error) {
	return tx.updateWebhook("patch", id, body, func(stored, request map[string]any) map[string]any {
		return jsontext.MergePatch(stored, request).(map[string]any)
	})
}

func (tx *Tx) updateWebhook(op, id string, body map[string]any, change func(stored, request map[string]any) map[string]any) (*Document, error) {
	before, err := tx.Get(KindWebhook, id)
	if err != nil {
		return nil, err
	}
	request := jsontext.CopyObject(body)
	if request["url"] == before.Webhook().DisplayURL() {
		delete(request, "url")
	}
	doc, err := tx.update(KindWebhook, id, request, change)
	if err == nil {
		delete(request, "id")
		tx.recordWebhook(op, id, sortedKeys(request))
	}
	return doc, err
}

// RotateWebhook gives a webhook the next signing secret.
func (tx *Tx) RotateWebhook(id string, now time.Time) error {
	return tx.setWebhook("rotate", id, nil, func(w *Webhook, stored map[string]any) {
		stored["generation"], stored["rotated_at"] = w.Generation+1, now.UTC()
	})
}

// ReplayWebhook restarts the delivery of a webhook after a revision.
func (tx *Tx) ReplayWebhook(id string, after Revision) error {
	if after > tx.base.Revision() {
		return Invalid([]Problem{{Detail: "query parameter after: there is no such revision yet"}})
	}
	return tx.setWebhook("replay", id, nil, func(w *Webhook, stored map[string]any) {
		stored["after"], stored["replays"] = int64(after), w.Replays+1
	})
}

// SuspendWebhook suspends a webhook.
func (tx *Tx) SuspendWebhook(id string) error {
	return tx.setWebhook("patch", id, []string{"suspended=true"}, func(_ *Webhook, stored map[string]any) { stored["suspended"] = true })
}

func (tx *Tx) setWebhook(op, id string, fields []string, set func(w *Webhook, stored map[string]any)) error {
	before, err := tx.Get(KindWebhook, id)
	if err != nil {
		return err
	}
	_, err = tx.edit(before, func(stored map[string]any) map[string]any {
		set(before.Webhook(), stored)
		return stored
	})
	if err == nil {
		tx.recordWebhook(op, id, fields)
	}
	return err
}

// recordWebhook records an operation with the names of the changed fields: the URL may be a secret.
func (tx *Tx) recordWebhook(op, id string, fields []string) {
	tx.recordOperation(api.RevisionOperation{Op: op, Kind: string(KindWebhook), ID: id, Fields: fields})
}
