package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerBytea makes a connection read bytea in both text formats of the server. An administrator may set bytea_output = escape for a
// database or a role. The driver cannot read this format, and pgbouncer refuses connections that set the parameter.
func registerBytea(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: bytea{}})
	return nil
}

// bytea is the driver's codec, extended to scan the format escape.
type bytea struct{ pgtype.ByteaCodec }

// PlanScan implements [pgtype.Codec].
func (b bytea) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan := b.ByteaCodec.PlanScan(m, oid, format, target)
	if plan == nil || format != pgtype.TextFormatCode {
		return plan
	}
	return escapeToHex{plan}
}

// escapeToHex converts the format escape to hex, which the plan of the driver reads.
type escapeToHex struct{ pgtype.ScanPlan }

// Scan implements [pgtype.ScanPlan].
func (p escapeToHex) Scan(src []byte, target any) error {
	prefix := []byte(`\x`) // the format escape never begins like this: it doubles a backslash
	if src == nil || bytes.HasPrefix(src, prefix) {
		return p.ScanPlan.Scan(src, target)
	}
	plain, err := unescape(src)
	if err != nil {
		return err
	}
	return p.ScanPlan.Scan(hex.AppendEncode(prefix, plain), target)
}

// unescape decodes the format escape: two backslashes are one, and a backslash with three octal digits is a byte.
func unescape(src []byte) ([]byte, error) {
	out := make([]byte, 0, len(src))
	for i := 0; i < len(src); i++ {
		switch rest := src[i:]; {
		case rest[0] != '\\':
			out = append(out, rest[0])
		case len(rest) > 1 && rest[1] == '\\':
			out = append(out, '\\')
			i++
		case len(rest) > 3 && rest[1] <= '3' && isOctal(rest[1]) && isOctal(rest[2]) && isOctal(rest[3]):
			out = append(out, (rest[1]-'0')<<6|(rest[2]-'0')<<3|(rest[3]-'0'))
			i += 3
		default:
			return nil, fmt.Errorf("invalid bytea in the format escape at byte %d", i)
		}
	}
	return out, nil
}

func isOctal(c byte) bool { return '0' <= c && c <= '7' }
