# Packs the current folder with the writer of RubyGems.
require "find"
require "rubygems/package"
require "stringio"
require "zlib"

packed = StringIO.new
Gem::Package::TarWriter.new(packed) do |tar|
  Find.find(".") do |path|
    stat = File.lstat(path)
    if stat.directory?
      tar.mkdir(path, stat.mode & 0o777)
    elsif stat.file?
      tar.add_file_simple(path, stat.mode & 0o777, stat.size) { |body| body.write(File.binread(path)) }
    end
  end
end
gzip = Zlib::GzipWriter.new($stdout.binmode)
gzip.write(packed.string)
gzip.finish
