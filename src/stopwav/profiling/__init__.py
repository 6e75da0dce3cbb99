"""The instrument in the user's own code: functions and blocks, steps of a loop, and traces that were exported."""
