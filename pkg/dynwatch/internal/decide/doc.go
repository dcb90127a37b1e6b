// Package decide says what an observation of an object means: which events follow from it, given
// what the log holds of the object's name. It is pure: no log, no API server, no clock.
//
// "Newer" compares with the newest revision at which the object is known to have existed, or with
// the last event of another object of the name.
//
//	log holds        observation                      result
//	nothing          ADDED, MODIFIED                  added
//	nothing          DELETED, not before position     deleted: it was created in a gap
//	nothing          DELETED, before the position     nothing: its end is in the log, or it never was
//	nothing          listed                           as the list has it: snapshot or added
//	past             not newer than that              nothing: the watch was resumed before an end, or
//	                                                  another list of the namespace was later
//	left             listed                           entered, also without a change of the object
//	same object      ADDED, MODIFIED, listed, newer   modified
//	same object      not newer                        nothing
//	same object      DELETED, newer                   deleted
//	same object      DELETED, at a known revision     deleted: servers without etcd
//	same object      DELETED, older                   nothing
//	same object      listed, to be repeated           snapshot, unless it is older
//	same object      absent from a list, not older    deleted
//	same object      absent from an older list        nothing
//	other object     newer                            deleted (the other one, at the revision before),
//	                                                  then as for nothing
//	other object     not newer                        nothing
//	restored, same   listed                           modified, unless revision and content are the same
//	restored, same   absent from a list               deleted
//	restored, other  listed                           as newer
//
// An API server on etcd sends the frames of a watch by ascending revision, and a deletion at a
// revision of its own. Aggregated API servers with other storage do neither: they send a DELETED
// frame with the object's last revision, and frames from before the position of the watch. So a
// frame is compared with the object's own last event, and with the position only where nothing is
// known of the object.
//
// Under a label or field selector, the API server sends ADDED also for an object that begins to
// match, and DELETED for one that no longer does. Then the decision asks whether the API server
// has the object without the selector. If it has, added becomes entered, deleted becomes left, and
// the deletion of an object that was never announced becomes nothing.
//
// "Left" comes before "past": an edit of the config, or the labels of a Namespace, may have selected the
// object again without a change of it.
//
// What an edit of the selectors has dropped counts as nothing: a list lacks it, the API server has
// it, and the log forgets it without an event.
//
// An unreadable object has no event of its own but its end, if it was announced. The end of another
// object that it replaces is announced as well.
//
// An object that is listed at an older revision than is known, or another one that is not newer, is
// nothing either. It may prove that etcd was restored: [Known.Contradicts].
package decide
