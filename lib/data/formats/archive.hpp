#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace trainctl::data {

/// Reads a plain or gzip-compressed file sequentially. All errors are Error(data) with file and
/// byte offset.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to the size of `out`, and fewer bytes only at the end. At the end of a gzip file the
  /// checksum has been verified.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  /// Skips `count` bytes; returns fewer only at the end.
  virtual std::uint64_t skip(std::uint64_t count);
  /// Returns an upper bound of the (decompressed) size, known before reading.
  [[nodiscard]] virtual std::uint64_t most() const = 0;
};

/// Opens `path` and decompresses it if the name ends in .gz.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

/// A regular file in an archive. The name is only a label: no file is opened or created by it.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  // of the content in the (decompressed) archive
  std::uint64_t size = 0;
};

/// Iterates over the regular files of a tar archive: ustar, GNU long names, pax and base-256 sizes.
/// Skips folders, links and devices. Verifies checksums, sizes and the end marker; every violation
/// is an Error(data) with file and offset.
class TarReader {
 public:
  /// `name` is the archive name in errors.
  TarReader(ByteSource& source, std::string name);

  /// Advances to the next regular file. Returns false at the end marker.
  bool next(TarMember& member);
  /// Fills `out` with the next bytes of the member, which must have that many left.
  void read_part(std::span<std::byte> out);
  /// Returns the content of a member of at most `most` bytes as text.
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
  std::uint64_t left_ = 0;     // unread bytes of the current member
  std::uint64_t padding_ = 0;  // bytes after the member, up to the next block
};

}  // namespace trainctl::data
