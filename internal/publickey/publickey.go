// Package publickey reads the public keys that verify signatures of artifacts. The keys of a source are checked with it when they are
// written, and read with it when a signature is verified.
package publickey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// Parse returns the one public key in a PEM text, such as cosign.pub: ECDSA with P-256, RSA of at least 2048 bits, or Ed25519.
func Parse(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("is not one public key in PEM, which begins with -----BEGIN PUBLIC KEY-----")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is not a valid public key")
	}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, errors.New("is of another curve than P-256")
		}
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 {
			return nil, errors.New("is an RSA key of less than 2048 bits")
		}
	case ed25519.PublicKey:
	default:
		return nil, errors.New("is none of ECDSA, RSA and Ed25519")
	}
	return key, nil
}
