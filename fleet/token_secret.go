package fleet

import (
	"hash/crc32"
	"math/big"
	"strings"
)

const (
	secretPrefix   = "frs_"
	secretDigits   = 43 // of 256 bits in base 62
	checksumDigits = 6  // of 32 bits in base 62
)

// FormatSecret formats 256 random bits as a secret: a prefix that scanners for leaked secrets can search for, the bits, and
// their CRC-32, as in GitHub's tokens, so that a scanner can exclude lookalikes.
func FormatSecret(random [32]byte) string {
	digits := base62(new(big.Int).SetBytes(random[:]), secretDigits)
	return secretPrefix + digits + secretChecksum(digits)
}

// LooksLikeSecret reports whether a text has the form of FormatSecret, checksum included.
func LooksLikeSecret(text string) bool {
	digits, ok := strings.CutPrefix(text, secretPrefix)
	return ok && len(digits) == secretDigits+checksumDigits && secretChecksum(digits[:secretDigits]) == digits[secretDigits:]
}

// secretChecksum returns the checksum digits of a secret.
func secretChecksum(digits string) string {
	return base62(big.NewInt(int64(crc32.ChecksumIEEE([]byte(digits)))), checksumDigits)
}

// base62 formats a number with leading zeros.
func base62(n *big.Int, width int) string {
	text := n.Text(62)
	return strings.Repeat("0", width-len(text)) + text
}
