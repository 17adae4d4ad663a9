package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// rotationOverlap is the time after a rotation in which events are also signed with the previous secret.
const rotationOverlap = 24 * time.Hour

const secretPrefix = "whsec_"

// deriveSecret returns the signing secret of a generation of a webhook. It is not stored: every process derives it.
func deriveSecret(key, id string, generation int64) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "webhook/%s/%d", id, generation)
	return mac.Sum(nil)
}

// Secret returns the signing secret of a webhook in the form of Standard Webhooks; false without a key.
func (d *Deliverer) Secret(w *fleet.Webhook) (string, bool) {
	if d.cfg.Key == "" {
		return "", false
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(deriveSecret(d.cfg.Key, w.ID, w.Generation)), true
}

// sign returns the signatures of a message with the secret, and with the previous one within rotationOverlap of its rotation.
func (d *Deliverer) sign(w *fleet.Webhook, id string, at time.Time, body []byte) string {
	generations := []int64{w.Generation}
	if w.RotatedAt != nil && w.Generation > 1 && at.Before(w.RotatedAt.Add(rotationOverlap)) {
		generations = append(generations, w.Generation-1)
	}
	signatures := make([]string, len(generations))
	for i, generation := range generations {
		mac := hmac.New(sha256.New, deriveSecret(d.cfg.Key, w.ID, generation))
		fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
