#pragma once

#include "base/files.hpp"
#include "data/cache/cached_dataset.hpp"
#include "data/pack/pack_format.hpp"

#include <cstdint>
#include <functional>
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
/// image only once its bytes are on the disk. Started again after an interruption, it checks what
/// is there and goes on behind the last image that is whole, and the file comes out the same. One
/// writer a file; another gets Error(resource).
class PackWriter {
 public:
  /// `head` has key, source, classes, channels and recipe; its samples are those of the source.
  /// `checked` is told how far the check of what is there has come. Throws Error(config) where a
  /// journal of another key is in the way.
  PackWriter(fs::path path, const PackHeader& head, const Progress& checked = {});
  /// Saves what was appended, as far as it can.
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  /// Samples of the source that need not be read again.
  [[nodiscard]] std::int64_t done() const {
    return static_cast<std::int64_t>(entries_.size() + left_out_.size());
  }
  /// Images that are there.
  [[nodiscard]] std::int64_t found() const { return std::ssize(entries_); }
  /// Images that the journal named and that were not as it said: they are made again.
  [[nodiscard]] std::int64_t damaged() const { return damaged_; }
  /// What has been left out so far, in the order of the source.
  [[nodiscard]] std::vector<SkippedSample> left_out() const;

  /// Throws Error(data) naming the image where a pack cannot hold it.
  void append(const PackedImage& image);
  /// A sample of the source that the pack will not have.
  void leave_out(const SkippedSample& sample);
  /// Once all samples are there: index, notes, header, and the file's final name.
  PackHeader finish(PackNotes notes);

 private:
  struct LeftOut {
    std::size_t entries = 0;  // that stand before it
    SkippedSample sample;
  };

  void resume(const Progress& checked);
  void read_journal();
  bool take_record(std::string_view journal);
  [[nodiscard]] std::size_t sound_entries(std::uint64_t on_disk, const Progress& checked) const;
  void keep(std::size_t entries);
  void save();
  void save_if_due();

  fs::path path_;
  fs::path partial_path_;
  fs::path journal_path_;
  PackHeader head_;
  Fd partial_;
  Fd journal_;
  std::vector<PackEntry> entries_;
  std::vector<std::uint64_t> record_ends_;  // of each entry, in the journal
  std::vector<LeftOut> left_out_;
  std::string names_;
  std::uint64_t end_ = kPackPage;  // of the data
  std::uint64_t journal_end_ = 0;  // of its sound records, when it was opened
  std::int64_t damaged_ = 0;
  std::string data_;     // not yet written
  std::string records_;  // not yet written; of images whose data may not be on the disk
  bool failed_ = false;  // a save did: what is on the disk is not known
};

/// Opens the file for reading and writing, making it where there is none, and locks it for this
/// descriptor. The file it locked is the one of that name: not one that another process renamed or
/// removed meanwhile. `opened` is called between opening and locking: tests put such a change
/// there. Throws Error(resource), also where another process has the lock.
Fd open_locked(const fs::path& path, const std::function<void()>& opened = {});

}  // namespace trainctl::data
