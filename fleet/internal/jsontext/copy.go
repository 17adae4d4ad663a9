package jsontext

// Copy copies a parsed value, so that the copy can be changed.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CopyObject(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = Copy(item)
		}
		return out
	}
	return v
}

// CopyObject is Copy for an object.
func CopyObject(obj map[string]any) map[string]any {
	out := make(map[string]any, len(obj))
	for field, v := range obj {
		out[field] = Copy(v)
	}
	return out
}
