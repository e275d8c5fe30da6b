#pragma once

#include "data/formats/file_reader.hpp"
#include "data/image/image.hpp"
#include "data/loader/skipped_samples.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace trainctl::data {

/// What a pack was made from.
struct PackOrigin {
  std::string stage;  // the data set's options, as YAML
  /// The paths it names come first; the size of a folder is 0. Empty: nothing can be compared.
  std::vector<PathMark> marks;
};

/// What a pack holds next to its samples.
struct PackNotes {
  std::vector<std::string> class_names;  // empty where nobody named them
  std::vector<SkippedSample> left_out;   // samples of the source that could not be read
  PackOrigin origin;

  static auto parts(auto& self) {
    return std::tie(self.class_names, self.left_out, self.origin.stage, self.origin.marks);
  }
};

/// Reads what encode() wrote. Throws Error(data) where the bytes are damaged; `name` is what errors
/// call the file.
PackNotes decode_notes(std::string_view bytes, const std::string& name);

// A pack file: one page of header; the images one behind the other; one entry for each; their names
// one behind the other; the notes. No holes, so every byte belongs to a checksum: the header's own,
// the index's, the notes', or an image's. Numbers are little-endian.

static_assert(std::endian::native == std::endian::little, "packs are read in place");

constexpr std::array<char, 8> kPackMagic{'\x89', 'T', 'C', 'P', '\r', '\n', '\x1a', '\n'};
constexpr std::uint32_t kPackVersion = 2;
constexpr std::int64_t kMostSide = 1 << 20;
constexpr std::int64_t kMostChannels = 4;
constexpr std::size_t kPackPage = 4096;  // the header's page; the data begins behind it

enum class PackFormat : std::uint16_t { file = 0, raw = 1 };

struct PackEntry {
  std::uint64_t offset = 0;
  std::uint64_t hash = 0;
  std::int64_t label = 0;
  std::uint64_t name_end = 0;  // of all names; a name begins where the one before it ends
  std::uint32_t bytes = 0;
  std::uint32_t height = 0;  // 0: not known
  std::uint32_t width = 0;
  std::uint16_t channels = 0;
  PackFormat format = PackFormat::file;
};
static_assert(sizeof(PackEntry) == 48);

struct PackHeader {
  std::array<char, 8> magic = kPackMagic;
  std::uint32_t version = kPackVersion;
  std::uint32_t channels = 0;
  std::uint32_t height = 0;  // of every image, all raw; 0: each has its own
  std::uint32_t width = 0;
  std::uint64_t key = 0;     // of the source and of how the images were made
  std::uint64_t source = 0;  // hash of the source's fingerprint
  std::int64_t samples = 0;
  std::int64_t classes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t names_bytes = 0;
  std::uint64_t index_hash = 0;  // of entries and names
  std::uint64_t notes_bytes = 0;
  std::uint64_t notes_hash = 0;
  std::array<char, 128> recipe{};  // how the images were made, for people
  std::uint64_t header_hash = 0;   // of the page with this field 0

  [[nodiscard]] ImageShape shape() const { return {height, width, channels}; }
  [[nodiscard]] std::uint64_t index_offset() const { return kPackPage + data_bytes; }
  [[nodiscard]] std::uint64_t index_bytes() const {  // of entries and names
    return static_cast<std::uint64_t>(samples) * sizeof(PackEntry) + names_bytes;
  }
  [[nodiscard]] std::uint64_t notes_offset() const { return index_offset() + index_bytes(); }
  [[nodiscard]] std::string_view recipe_text() const {
    return {recipe.data(), ::strnlen(recipe.data(), recipe.size())};
  }
};
static_assert(sizeof(PackHeader) == 232);

/// Whether a pack can hold such a raw image beside others of so many channels.
inline bool fits_pack(const ImageShape& shape, std::int64_t channels) {
  return shape.fixed() && shape.height <= kMostSide && shape.width <= kMostSide &&
         shape.channels == channels;
}

/// The header's page as it is written; sets header_hash.
std::string header_page(PackHeader header);

/// What a pack of this source made in this way is known by.
std::uint64_t pack_key(std::string_view fingerprint, std::string_view recipe);

/// A pack in memory whose header and index have been found sound; its images are checked by whoever
/// reads them.
class PackView {
 public:
  /// Reads and checks the header and the length only. `name` is what errors call the file. Throws
  /// Error(data).
  static PackHeader head(std::span<const std::byte> file, const std::string& name);

  /// The notes behind the index of a file whose header is `header`. Throws Error(data).
  static PackNotes notes(std::span<const std::byte> file, const PackHeader& header,
                         const std::string& name);

  PackView() = default;
  /// Checks header, index, names and notes before anything is allocated. Throws Error(data) naming
  /// file and byte offset.
  PackView(std::span<const std::byte> file, const std::string& name);

  [[nodiscard]] const PackHeader& header() const { return header_; }
  [[nodiscard]] const PackNotes& notes() const { return notes_; }
  [[nodiscard]] PackEntry entry(std::int64_t index) const;
  [[nodiscard]] std::span<const std::byte> bytes(const PackEntry& entry) const;
  [[nodiscard]] std::string_view name(std::int64_t index) const;

 private:
  void check_entries(const std::string& name) const;

  std::span<const std::byte> file_;
  PackHeader header_;
  PackNotes notes_;
};

}  // namespace trainctl::data
