package render

import (
	"strings"
	"time"
	"unicode/utf8"
)

const (
	gap       = 3 // preferred space between columns
	leastHead = 5 // minimum length of a header
	leastCell = 10
	leastTime = len("2006-01-02T15:04…") - len("…") + 1
)

// layout holds the widths of a table's columns and the space between them.
type layout struct {
	columns []column
	gap     int
}

// column holds the width of a column and its minimum.
type column struct {
	width       int
	header      int // without the header
	leastOfCell int // where cells are cut
	empty       bool
	hidden      bool
}

// layoutOf returns the layout without any cut.
func layoutOf(header []string, rows [][]string) layout {
	l := layout{columns: make([]column, len(header)), gap: gap}
	for i := range header {
		c, times := &l.columns[i], len(rows) > 0
		c.empty = len(rows) > 0
		for _, row := range rows {
			c.empty = c.empty && row[i] == nothing
			c.width = max(c.width, utf8.RuneCountInString(row[i]))
			_, err := time.Parse(time.RFC3339, row[i])
			times = times && err == nil
		}
		c.leastOfCell = min(max(c.width, leastHead), leastCell)
		if times {
			c.leastOfCell = min(c.width, leastTime)
		}
		c.header = max(c.width, min(leastHead, utf8.RuneCountInString(header[i])))
		c.width = max(c.width, utf8.RuneCountInString(header[i]))
	}
	return l
}

func (l layout) total() int {
	total := -l.gap
	for _, c := range l.columns {
		if !c.hidden {
			total += c.width + l.gap
		}
	}
	return total
}

// fit narrows a layout to a line of width characters. It first reduces the space between columns, then empty columns, headers wider
// than their cells, and at last the widest cells. The first column, which names the row, stays whole, so that a table may still be
// too wide.
func (l *layout) fit(width int) {
	if l.total() <= width {
		return
	}
	l.gap = gap - 1
	for i := len(l.columns) - 1; i > 0 && l.total() > width; i-- {
		l.columns[i].hidden = l.columns[i].empty
	}
	for _, least := range []func(column) int{func(c column) int { return c.header }, func(c column) int { return c.leastOfCell }} {
		for l.total() > width {
			var widest *column
			for i := range l.columns[1:] {
				c := &l.columns[i+1]
				if !c.hidden && c.width > least(*c) && (widest == nil || c.width > widest.width) {
					widest = c
				}
			}
			if widest == nil {
				break
			}
			widest.width--
		}
	}
}

// row formats cells as one line.
func (l layout) row(cells []string) string {
	var b strings.Builder
	for i, c := range l.columns {
		if c.hidden {
			continue
		}
		cell := Cut(cells[i], c.width)
		b.WriteString(cell + strings.Repeat(" ", c.width-utf8.RuneCountInString(cell)+l.gap))
	}
	return strings.TrimRight(b.String(), " ")
}

// Cut shortens a text, and marks the cut if there is room.
func Cut(cell string, width int) string {
	if utf8.RuneCountInString(cell) <= width {
		return cell
	}
	if width < 1 {
		return ""
	}
	return string([]rune(cell)[:width-1]) + "…"
}
