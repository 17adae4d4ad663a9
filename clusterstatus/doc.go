// Package clusterstatus keeps what clusters say of themselves: that they poll, what they have applied, what they failed at.
//
// None of it is part of the fleet. It is in no commit, plan, export or copy, an answer to a poll never waits for it, and when
// all of it is lost clusters say it again within the hour. A cluster can say what it wants of itself, and of nobody else.
//
// Start with [Tracker], which holds all of it in memory; [Store] is where the processes of one service exchange it; [Tracker.Evaluate] is
// what it comes to.
package clusterstatus
