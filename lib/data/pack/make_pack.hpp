#pragma once

#include "data/cache/cached_dataset.hpp"
#include "data/pack/pack_format.hpp"

namespace trainctl::data {

/// keep: files unchanged; baseline: progressive JPEGs converted losslessly to baseline; resize:
/// JPEGs of a smaller size; raw: pixels.
enum class PackMode { keep, baseline, resize, raw };
constexpr std::array<const char*, 4> enum_names(PackMode) {
  return {"keep", "baseline", "resize", "raw"};
}

/// How a pack is made.
struct PackOptions {
  PackMode mode = PackMode::keep;
  std::optional<std::int64_t>
      size;          // shorter side for resize and raw; smaller images are not enlarged
  int quality = 90;  // for resize
  int workers = 1;
  OnError on_error = OnError::fail;         // skip: omit images that cannot be decoded
  std::optional<std::int64_t> max_skipped;  // default: default_max_skipped()
  PackOrigin origin = {};                   // the source of the samples
};

/// Returns the options that determine the content of the pack, as stored in its header.
std::string pack_recipe(const PackOptions& options);

/// The result of make_pack().
struct PackReport {
  std::int64_t samples = 0;  // in the pack
  std::int64_t found =
      0;  // found in an existing file: all of a complete pack, or those of an interrupted run
  std::int64_t damaged = 0;  // damaged in an interrupted run and packed again
  std::vector<SkippedSample> skipped;
  std::uint64_t bytes = 0;
};

/// Progress callbacks: first for samples found in an existing file, then for packed samples.
struct PackProgress {
  Progress checked;
  Progress packed;
};

/// Packs the images and labels of a data set into `path`: the same bytes for any number of workers
/// and after any number of interruptions. Keeps a complete pack of the same samples and options.
/// Throws Error(config) when another file or the partial file of another pack exists, or when a
/// pack cannot hold such samples; Error(data) that names an unreadable image.
PackReport make_pack(const Dataset& dataset, const fs::path& path, const PackOptions& options,
                     const PackProgress& progress = {});

/// One image for a pack.
struct PackedImage {
  std::vector<std::byte> bytes;
  ImageShape shape;  // 0 if unknown
  PackFormat format = PackFormat::file;
  std::string name;
  std::int64_t label = 0;
};

/// Writes a pack: images to FILE.partial and their entries to FILE.journal, which lists an image
/// only after its bytes are on disk. When restarted after an interruption, it verifies the existing
/// data and continues after the last intact image; the resulting file is the same. A second writer
/// of the same file gets Error(resource).
class PackWriter {
 public:
  /// `head` contains key, source, classes, channels and recipe; its samples are those of the
  /// source. `checked` reports the progress of verifying existing data. Throws Error(config) when a
  /// journal with another key exists.
  PackWriter(fs::path path, const PackHeader& head, const Progress& checked = {});
  /// Saves the appended images if possible.
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  /// Returns the number of source samples that need not be read again.
  [[nodiscard]] std::int64_t done() const {
    return static_cast<std::int64_t>(entries_.size() + skipped_.size());
  }
  /// Images found by the constructor.
  [[nodiscard]] std::int64_t found() const { return std::ssize(entries_); }
  /// Images listed in the journal whose bytes did not match; they must be made again.
  [[nodiscard]] std::int64_t damaged() const { return damaged_; }
  [[nodiscard]] const fs::path& partial_path() const { return partial_path_; }
  [[nodiscard]] const fs::path& journal_path() const { return journal_path_; }
  /// Samples that have been skipped so far, in source order.
  [[nodiscard]] std::vector<SkippedSample> skipped() const;

  /// Throws Error(data) that names the image when a pack cannot hold it.
  void append(const PackedImage& image);
  /// Records a sample of the source that the pack omits.
  void leave_out(const SkippedSample& sample);
  /// Must be called after the last sample. Writes index, notes and header, and renames the file to
  /// its final name.
  PackHeader finish(PackNotes notes);

 private:
  struct SkippedEntry {
    std::size_t entries = 0;  // entries before it
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
  std::vector<std::uint64_t> record_ends_;  // end of each entry in the journal
  std::vector<SkippedEntry> skipped_;
  std::string names_;
  std::uint64_t end_ = kPackPage;  // end of the data
  std::uint64_t journal_end_ = 0;  // end of its valid records when it was opened
  std::int64_t damaged_ = 0;
  std::string data_;     // not yet written
  std::string records_;  // not yet written; their images may not be on disk yet
  bool failed_ = false;  // a save failed, so the state on disk is unknown
};

/// Opens the file for reading and writing, creates it if necessary, and locks it for this
/// descriptor. Ensures that the locked file still has that name, in case another process renamed or
/// removed it meanwhile. Tests use `opened`, which is called between open and lock, to make such a
/// change. Throws Error(resource), also when another process holds the lock.
Fd open_locked(const fs::path& path, const std::function<void()>& opened = {});

}  // namespace trainctl::data
