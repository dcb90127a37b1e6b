package configfile

// RenamedKeys has the path of every key that was renamed, and its new name.
func RenamedKeys() map[string]string {
	all := map[string]string{}
	for _, one := range renamedKeys() {
		all[one.old] = one.key
	}
	return all
}
