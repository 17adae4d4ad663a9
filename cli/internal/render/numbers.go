package render

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Numbers decodes JSON as Kubernetes does: a number that fits becomes an int64, others a float64.
func Numbers(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return convertNumbers(v)
}

func convertNumbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = convertNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = convertNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
