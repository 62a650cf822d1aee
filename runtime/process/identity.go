package process

import (
	"fmt"
	"os/user"
	"strconv"
)

// Identity is the Unix identity that a process takes on, completely or not at all.
type Identity struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Name     string   // of the user
	Home     string
}

// Lookup finds a user and a group by name or number. An empty group is the user's own primary one; an empty user with
// a group keeps the daemon's own user. Both empty: nil, the daemon's own identity. A group given replaces the primary
// one; the user's supplementary groups stay. It reads files and must not be called where blocking is forbidden.
func Lookup(userName, groupName string) (*Identity, error) {
	if userName == "" && groupName == "" {
		return nil, nil
	}
	account, err := findUser(userName)
	if err != nil {
		return nil, err
	}
	id := &Identity{Name: account.Username, Home: account.HomeDir}
	if id.UID, err = number(account.Uid); err != nil {
		return nil, fmt.Errorf("cannot use user %q: %w", userName, err)
	}
	if id.GID, err = number(account.Gid); err != nil {
		return nil, fmt.Errorf("cannot use user %q: %w", userName, err)
	}
	listed, err := account.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot find the groups of user %q: %w", userName, err)
	}
	for _, text := range listed {
		gid, err := number(text)
		if err != nil {
			return nil, fmt.Errorf("cannot use user %q: %w", userName, err)
		}
		id.Groups = append(id.Groups, gid)
	}
	if groupName != "" {
		if id.GID, err = findGroup(groupName); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func findUser(name string) (*user.User, error) {
	if name == "" {
		account, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("cannot find the daemon's own user: %w", err)
		}
		return account, nil
	}
	account, err := user.Lookup(name)
	if err == nil {
		return account, nil
	}
	if _, notNumber := number(name); notNumber == nil {
		if account, err := user.LookupId(name); err == nil {
			return account, nil
		}
	}
	return nil, fmt.Errorf("cannot find user %q: no such user", name)
}

func findGroup(name string) (uint32, error) {
	group, err := user.LookupGroup(name)
	if err != nil {
		if _, notNumber := number(name); notNumber == nil {
			group, err = user.LookupGroupId(name)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("cannot find group %q: no such group", name)
	}
	return number(group.Gid)
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return uint32(n), nil
}
