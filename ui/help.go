package ui

type helpView struct {
	frame
	Keys   []pageLink // key and effect
	States []stateInfo
}

// showHelp shows the keys and the meanings of the states.
func showHelp(req *pageRequest) error {
	return req.show("help", helpView{req.frame("Help", ""), []pageLink{
		{"?", "This page"},
		{"/", "Search"},
		{"j, ↓", "Next row"},
		{"k, ↑", "Previous row"},
		{"Enter", "Open the row"},
		{"←, →", "On the slider of the last 24 hours: the counts of an interval; Enter opens its first change"},
		{"g o", "Overview"},
		{"g c", "Clusters"},
		{"g p", "Components"},
		{"g m", "Matrix"},
		{"g l", "Layers"},
		{"g r", "Rollouts"},
		{"g d", "Definitions"},
		{"g h", "Changes"},
		{"t", "Theme: of the system, light, dark"},
		{"Esc", "Leave a field, close a filter"},
	}, states})
}
