package einmal

import "syscall"

// Magic numbers of statfs(2) of file systems whose locks live and die with this kernel.
var localFileSystems = map[int64]bool{
	0xEF53:     true, // ext2, ext3, ext4
	0x58465342: true, // xfs
	0x9123683E: true, // btrfs
	0x2FC12FC1: true, // zfs
	0xF2F52010: true, // f2fs
	0x01021994: true, // tmpfs
	0x794C7630: true, // overlayfs
	0xCA451A4E: true, // bcachefs
}

// locksAreLocal reports whether the folder is on a file system whose locks can be trusted; network and FUSE file systems are not.
func locksAreLocal(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && localFileSystems[int64(uint32(st.Type))]
}
