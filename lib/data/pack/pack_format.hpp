#pragma once

#include "data/core/registry.hpp"
#include "data/formats/file_reader.hpp"
#include "data/loader/skipped_samples.hpp"

#include <bit>
#include <cstring>

namespace trainctl::data {

/// The source of a pack.
struct PackOrigin {
  std::string stage;  // the data set options, as YAML
  /// The paths that the options name come first; folders have size 0. Empty: the source cannot be
  /// compared.
  std::vector<PathStamp> marks;
};

/// The metadata of a pack.
struct PackNotes {
  std::vector<std::string> class_names;  // empty when the data set does not name them
  std::vector<SkippedSample> skipped;    // samples of the source that could not be read
  PackOrigin origin;

  static auto parts(auto& self) {
    return std::tie(self.class_names, self.skipped, self.origin.stage, self.origin.marks);
  }
};

/// Decodes notes that encode() wrote. Throws Error(data) if the bytes are damaged; the message
/// calls the file `name`.
PackNotes decode_notes(std::string_view bytes, const std::string& name);

// Layout of a pack file: one page of header, the images, one entry per image, their names, the
// notes. There are no gaps, so a checksum covers every byte: that of the header, the index, the
// notes, or an image. Numbers are little-endian.

static_assert(std::endian::native == std::endian::little, "packs are read in place");

constexpr std::array<char, 8> kPackMagic{'\x89', 'T', 'C', 'P', '\r', '\n', '\x1a', '\n'};
constexpr std::uint32_t kPackVersion = 2;
constexpr std::int64_t kMostSide = 1 << 20;
constexpr std::int64_t kMostChannels = 4;
constexpr std::size_t kPackPage = 4096;  // size of the header; the data starts after it

/// How an image is stored: as an encoded file or as raw pixels.
enum class PackFormat : std::uint16_t { file = 0, raw = 1 };

/// The index entry of one image. `offset` counts from the start of the file.
struct PackEntry {
  std::uint64_t offset = 0;
  std::uint64_t hash = 0;
  std::int64_t label = 0;
  std::uint64_t name_end = 0;  // cumulative; a name starts where the previous one ends
  std::uint32_t bytes = 0;
  std::uint32_t height = 0;  // 0: unknown
  std::uint32_t width = 0;
  std::uint16_t channels = 0;
  PackFormat format = PackFormat::file;
};
static_assert(sizeof(PackEntry) == 48);

/// The start of the header page.
struct PackHeader {
  std::array<char, 8> magic = kPackMagic;
  std::uint32_t version = kPackVersion;
  std::uint32_t channels = 0;
  std::uint32_t height = 0;  // common size, if all images are raw; 0: sizes differ
  std::uint32_t width = 0;
  std::uint64_t key = 0;     // pack_key() of the source and the recipe
  std::uint64_t source = 0;  // hash of the source's fingerprint
  std::int64_t samples = 0;
  std::int64_t classes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t names_bytes = 0;
  std::uint64_t index_hash = 0;  // of entries and names
  std::uint64_t notes_bytes = 0;
  std::uint64_t notes_hash = 0;
  std::array<char, 128> recipe{};  // how the images were made, as text
  std::uint64_t header_hash = 0;   // of the page with this field set to 0

  [[nodiscard]] ImageShape shape() const { return {height, width, channels}; }
  [[nodiscard]] std::uint64_t index_offset() const { return kPackPage + data_bytes; }
  [[nodiscard]] std::uint64_t index_bytes() const {  // entries and names
    return static_cast<std::uint64_t>(samples) * sizeof(PackEntry) + names_bytes;
  }
  [[nodiscard]] std::uint64_t notes_offset() const { return index_offset() + index_bytes(); }
  [[nodiscard]] std::string_view recipe_text() const {
    return {recipe.data(), ::strnlen(recipe.data(), recipe.size())};
  }
};
static_assert(sizeof(PackHeader) == 232);

/// Returns whether a pack of images with `channels` channels can hold a raw image of that shape.
inline bool fits_pack(const ImageShape& shape, std::int64_t channels) {
  return shape.fixed() && shape.height <= kMostSide && shape.width <= kMostSide &&
         shape.channels == channels;
}

/// Returns the header page as it is written; sets header_hash.
std::string header_page(PackHeader header);

/// Returns the key that identifies a pack of this source and recipe.
std::uint64_t pack_key(std::string_view fingerprint, std::string_view recipe);

/// A pack in memory with a verified header and index. Readers verify the images.
class PackView {
 public:
  /// Reads and verifies only the header and file length. `name` is the file name in errors. Throws
  /// Error(data).
  static PackHeader head(std::span<const std::byte> file, const std::string& name);

  /// Reads the notes after the index of a file with that header. Throws Error(data).
  static PackNotes notes(std::span<const std::byte> file, const PackHeader& header,
                         const std::string& name);

  PackView() = default;
  /// Verifies header, index, names and notes before any allocation. Throws Error(data) with file
  /// and byte offset.
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

/// Records the source of a pack: the options of the data set, and the times and sizes of all
/// folders that they name and, if there are few, of all files. Must be called before the data set
/// is opened. A remote source, or one without files, has no marks.
PackOrigin record_origin(const config::Stage& source);

/// Throws Error(data) when the source exists and now has other samples. Cheap for an unchanged
/// source: one stat() per mark. Otherwise opens the source and compares fingerprints.
void check_pack_origin(const PackHeader& header, const PackOrigin& origin, const Catalog& catalog,
                       const std::string& file);

/// Throws Error(data) unless the pack was made from a source with this fingerprint.
void check_pack_source(const PackHeader& header, const std::string& fingerprint,
                       const std::string& file);

}  // namespace trainctl::data
