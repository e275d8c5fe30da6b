#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace trainctl::data {

/// Reads a plain or gzipped file from its start to its end. All errors are Error(data) that name
/// file and byte offset.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to the size of `out`; fewer bytes only at the end. For gzip the end has passed its
  /// checksum.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  /// Passes over `count` bytes; returns fewer only at the end.
  virtual std::uint64_t skip(std::uint64_t count);
  /// Most bytes that can come out of this file, known before reading.
  [[nodiscard]] virtual std::uint64_t most() const = 0;
};

/// Opens `path`; a name that ends in .gz is unpacked on the way.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

/// A regular file within an archive. The name is a label: nothing is ever opened or created by it.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of its content within the (unpacked) archive
  std::uint64_t size = 0;
};

/// Walks through a tar archive: ustar, GNU long names and pax, base-256 sizes. Folders, links and
/// devices are passed over. Checksums, sizes and the end mark are checked; every fault is an
/// Error(data) with file and offset.
class TarReader {
 public:
  /// `name` is what errors call the archive.
  TarReader(ByteSource& source, std::string name);

  /// The next regular file; false behind the end mark.
  bool next(TarMember& member);
  /// Fills `out` with the next bytes of the member's content, which must have as many left.
  void read_part(std::span<std::byte> out);
  /// The content of a small member as text.
  std::string read_text(std::uint64_t most);

 private:
  struct Header;
  struct Overrides;

  bool read_block(std::span<std::byte> block, const char* what);
  void read_exactly(std::span<std::byte> out, const char* what);
  void finish_member();
  void read_end();
  void extend(const Header& header, Overrides& overrides);
  void read_pax(const std::string& records, std::uint64_t at, Overrides& overrides) const;

  ByteSource& source_;
  std::string name_;
  std::uint64_t offset_ = 0;
  std::uint64_t left_ = 0;     // of the current member's content
  std::uint64_t padding_ = 0;  // behind it, up to a whole block
};

}  // namespace trainctl::data
