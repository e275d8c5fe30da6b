#pragma once

#include "data/formats/archive.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace trainctl::data {

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
