#pragma once

#include "base/files.hpp"
#include "data/pack/format.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// One image as it goes into a pack.
struct PackedImage {
  std::vector<std::byte> bytes;
  ImageShape shape;  // 0 where not known
  PackFormat format = PackFormat::file;
  std::string name;
  std::int64_t label = 0;
};

/// Writes a pack: images into FILE.partial and what they are into FILE.journal, which names an
/// image only once its bytes are on the disk. Started again after an interruption, it goes on
/// behind the last image named there, and the file comes out the same. One writer a file; another
/// gets Error(resource).
class PackWriter {
 public:
  /// `head` has key, source, classes, channels, samples and recipe. Throws Error(config) where a
  /// journal of another key is in the way.
  PackWriter(fs::path path, const PackHeader& head);
  /// Saves what was appended, as far as it can.
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  /// Images that are there already.
  [[nodiscard]] std::int64_t done() const { return static_cast<std::int64_t>(entries_.size()); }
  void append(const PackedImage& image);
  /// Once all samples are there: index, header, and the file's final name.
  PackHeader finish();

 private:
  void resume();
  void read_journal();
  void save();
  void begin_journal();

  fs::path path_;
  fs::path partial_path_;
  fs::path journal_path_;
  PackHeader head_;
  Fd partial_;
  Fd journal_;
  std::vector<PackEntry> entries_;
  std::string names_;
  std::uint64_t end_ = kPackPage;  // of the data
  std::string data_;               // not yet written
  std::string records_;            // not yet written; of images whose data may not be on the disk
};

}  // namespace trainctl::data
