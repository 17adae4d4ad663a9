package ui

type helpView struct {
	frame
	States []stateInfo
}

// showHelp shows the keys and the meanings of the states.
func showHelp(req *pageRequest) error {
	return req.show("help", "Help", "", &helpView{States: states})
}
