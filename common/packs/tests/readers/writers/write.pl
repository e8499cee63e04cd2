# Packs the current folder with Archive::Tar, into the file $FILE.
use strict;
use warnings;
use Archive::Tar;
use File::Find;

my @paths;
find({ wanted => sub { push @paths, $_ unless $_ eq '.' }, no_chdir => 1 }, '.');
my $tar = Archive::Tar->new;
$tar->add_files(@paths);
$tar->write($ENV{FILE}, COMPRESS_GZIP) or die $tar->error;
