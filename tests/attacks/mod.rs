//! What a red team tried, against bounded load on loopback: a file for what is attacked. Each attack measures what others,
//! or the machine, would feel of it.
