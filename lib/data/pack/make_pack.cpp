#include "data/pack/make_pack.hpp"

#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "data/formats/cache_file.hpp"
#include "data/formats/mapped_file.hpp"
#include "data/image/codec/jpeg.hpp"
#include "data/image/resize.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace trainctl::data {
namespace {

/// Returns the shape of torchvision's Resize(size), but never enlarges the image.
ImageShape shrunk(const ImageShape& shape, std::optional<std::int64_t> size) {
  const std::int64_t shorter = std::min(shape.height, shape.width);
  if (!size || shorter <= *size) return shape;
  return {shape.height * *size / shorter, shape.width * *size / shorter, shape.channels};
}

ImageView resized(const ImageView& image, const ImageShape& to, std::vector<std::uint8_t>& out) {
  if (to == image.shape) return image;
  out.resize(to.bytes());
  const ResizePlan plan{ResizeAxis::whole(image.shape.height, to.height),
                        ResizeAxis::whole(image.shape.width, to.width)};
  resize(image, plan, out.data());
  return {out.data(), to};
}

/// Returns the shape in the file's header, or an empty shape when no decoder can read it.
ImageShape header_shape(const StoredImage& stored, PixelReader& reader) {
  try {
    return reader.shape(stored);
  } catch (const Error&) {
    return {};
  }
}

/// Converts the images of a data set to the form that a pack stores. Called from several threads.
class ImagePacker {
 public:
  /// Throws Error(config) when the images do not suit the mode.
  ImagePacker(const Dataset& dataset, const PackOptions& options)
      : dataset_(dataset), options_(options) {
    const Facts facts{.layout = dataset.layout()};
    const std::int64_t channels = image_shape(*facts.image()).channels;
    ENSURE(config, options.mode != PackMode::resize || channels == 3,
           "--mode resize writes JPEG images with 3 channels, but these images have {}\nhint: use "
           "--mode raw",
           channels);
  }

  /// Fills all of `out` except the label. Throws Error(data) that names the image.
  void make(std::int64_t index, PackedImage& out) const {
    const ImageStore& images = *dataset_.images();
    Pool<Workspace>::Lease work(pool_);
    out.name = images.name(index);
    in_context(out.name, [&] {
      const StoredImage stored = images.read(index, work->stored);
      const bool keeps = options_.mode == PackMode::keep || options_.mode == PackMode::baseline;
      keeps ? keep(stored, *work, out) : convert(stored, *work, out);
    });
  }

 private:
  struct Workspace {
    std::vector<std::byte> stored;
    PixelReader reader;
    std::vector<std::uint8_t> resized;
  };

  void keep(const StoredImage& stored, Workspace& work, PackedImage& out) const {
    const bool file = !stored.raw.fixed();
    if (options_.on_error == OnError::skip)
      (void)work.reader.read(stored);  // otherwise the file is not verified
    out.shape = header_shape(stored, work.reader);
    out.format = file ? PackFormat::file : PackFormat::raw;
    out.bytes.clear();
    if (options_.mode != PackMode::keep && file && is_jpeg(stored.bytes))
      out.bytes = baseline_jpeg(stored.bytes);
    if (out.bytes.empty()) out.bytes.assign(stored.bytes.begin(), stored.bytes.end());
  }

  void convert(const StoredImage& stored, Workspace& work, PackedImage& out) const {
    const ImageShape shape = work.reader.shape(stored);
    const ImageShape to = shrunk(shape, options_.size);
    // A second lossy compression would reduce the quality without making the image smaller.
    if (options_.mode == PackMode::resize && to == shape && !stored.raw.fixed())
      return keep(stored, work, out);
    const ImageView image = resized(work.reader.read(stored), to, work.resized);
    out.shape = to;
    if (options_.mode == PackMode::resize) {
      out.format = PackFormat::file;
      out.bytes = write_jpeg(image, options_.quality);
      return;
    }
    out.format = PackFormat::raw;
    const auto* pixels = reinterpret_cast<const std::byte*>(image.pixels);
    out.bytes.assign(pixels, pixels + to.bytes());
  }

  const Dataset& dataset_;
  PackOptions options_;
  mutable Pool<Workspace> pool_;
};

constexpr std::int64_t kAheadOfEach = 8;

/// Returns "features (8 numbers) and label (one number)", with the type if the type does not fit.
std::string described(const Layout& layout) {
  std::vector<std::string> fields;
  for (const Field& field : layout) {
    const char* type = field.dtype == Dtype::f32 ? "float" : "whole";
    std::string what = fmt::format("{}", fmt::join(field.shape, "x"));
    if (field.name != "image")
      what = field.shape.empty() ? fmt::format("one {} number", type)
                                 : fmt::format("{} {} numbers", what, type);
    fields.push_back(fmt::format("'{}' ({})", field.name, what));
  }
  return fmt::format("{}", fmt::join(fields, " and "));
}

/// Returns the initial header.
PackHeader head_of(const Dataset& dataset, const PackOptions& options) {
  const Layout& layout = dataset.layout();
  const Facts facts{.layout = layout};
  ENSURE(config,
         facts.image() != nullptr && layout.size() == 2 &&
             layout[1] == (Field{"label", Dtype::i64, {}}),
         "a pack contains images with one class each, but the samples of this data set have {}",
         described(layout));
  const std::int64_t channels = image_shape(*facts.image()).channels;
  ENSURE(config, channels <= kMostChannels,
         "a pack contains images of at most {} channels, but the images of this data set have {}",
         kMostChannels, channels);
  const std::string recipe = pack_recipe(options);
  const std::string fingerprint = dataset.fingerprint();
  PackHeader head;
  head.channels = static_cast<std::uint32_t>(channels);
  head.key = pack_key(fingerprint, recipe);
  head.source = hash_bytes(std::as_bytes(std::span(fingerprint)));
  head.samples = dataset.size();
  head.classes = dataset.classes();
  ASSERT(recipe.size() < head.recipe.size());
  std::copy(recipe.begin(), recipe.end(), head.recipe.begin());
  return head;
}

/// Reports an existing pack, if any. Refuses to overwrite any other file at that path.
std::optional<PackReport> complete_pack(const fs::path& path, std::uint64_t key, OnError on_error) {
  if (!fs::exists(path)) return std::nullopt;
  const std::string name = shown(path);
  PackHeader found;
  std::vector<SkippedSample> skipped;
  try {
    const MappedFile file(path);
    const PackView pack(file.bytes(), file.name());
    found = pack.header();
    skipped = pack.notes().skipped;
  } catch (const Error& error) {
    throw Error(
        ErrorKind::config,
        fmt::format("cannot overwrite an existing file: {}\nhint: remove the file, or choose "
                    "another name with --out",
                    error.message()));
  }
  ENSURE(config, found.key == key,
         "{} already exists, but was made from other samples or with other options ({})\nhint: "
         "remove the file, or choose another name with --out",
         name, printable(found.recipe_text()));
  ENSURE(config, skipped.empty() || on_error == OnError::skip,
         "{} is incomplete: {} sample{} could not be read when the pack was written; the first is "
         "{}\nhint: repair the samples and delete {} to pack again, or set "
         "dataset.on_error=skip to keep the pack without them",
         name, skipped.size(), plural(skipped.size()), printable(skipped.front().name), name);
  return PackReport{found.samples, found.samples, 0, std::move(skipped), fs::file_size(path)};
}

struct Slot {
  PackedImage image;
  std::optional<SkippedSample> failure;
};

void make_sample(const ImagePacker& packer, std::int64_t index, OnError on_error, Slot& slot) {
  slot.failure.reset();
  try {
    packer.make(index, slot.image);
  } catch (const Error& error) {
    if (on_error == OnError::fail || error.kind() != ErrorKind::data) throw;
    slot.failure = {slot.image.name, error.message()};
  }
}

/// Counts the samples that an interrupted run has skipped.
void count_skipped(const PackWriter& writer, OnError on_error, SkippedSamples& skipped) {
  const std::vector<SkippedSample> before = writer.skipped();
  ENSURE(data, before.empty() || on_error == OnError::skip,
         "the interrupted 'data pack' skipped a sample that could not be read, {}: {}\nhint: "
         "remove {} and {} to start again, or continue with dataset.on_error=skip",
         before.front().name, before.front().reason, shown(writer.partial_path()),
         shown(writer.journal_path()));
  for (std::size_t i = 0; i < before.size(); ++i)
    skipped.add(-1 - static_cast<std::int64_t>(i), before[i]);
}

constexpr std::size_t kSaveEvery = std::size_t{64} << 20;
constexpr std::size_t kSaveRecords = std::size_t{1} << 20;

struct JournalHead {
  std::array<char, 8> magic{'T', 'C', 'P', 'J', 'R', 'N', 'L', '\n'};
  std::uint64_t version = kPackVersion;
  std::uint64_t key = 0;
  bool operator==(const JournalHead&) const = default;
};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Returns a journal record: the index entry, the name and a hash of both.
std::string record_of(const PackEntry& entry, std::string_view name) {
  std::string record(bytes_of(entry));
  record += name;
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(record)));
  record += bytes_of(hash);
  return record;
}

void cut(const Fd& fd, std::uint64_t length, const fs::path& path) {
  const bool done =
      ::ftruncate(fd.get(), static_cast<off_t>(length)) == 0 && ::lseek(fd.get(), 0, SEEK_END) >= 0;
  ENSURE(resource, done, "cannot write {}: {}", shown(path), std::strerror(errno));
}

/// Marks the record of an omitted sample, which has no bytes; the reason follows the name.
constexpr auto kLeftOut = static_cast<PackFormat>(0xFFFF);

SkippedSample skipped_of(std::string_view text) {
  const std::size_t end = std::min(text.find('\0'), text.size());
  return {std::string(text.substr(0, end)),
          std::string(text.substr(std::min(end + 1, text.size())))};
}

bool has_name(const Fd& fd, const fs::path& path) {
  struct stat mine {};
  struct stat named {};
  return ::fstat(fd.get(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

}  // namespace

std::string pack_recipe(const PackOptions& options) {
  std::string recipe = enum_names(options.mode).at(static_cast<std::size_t>(options.mode));
  const bool resizes = options.mode == PackMode::resize || options.mode == PackMode::raw;
  if (resizes && options.size) recipe += fmt::format(", shorter side at most {}", *options.size);
  if (options.mode == PackMode::resize) recipe += fmt::format(", JPEG quality {}", options.quality);
  return recipe;
}

PackReport make_pack(const Dataset& dataset, const fs::path& path, const PackOptions& options,
                     const PackProgress& progress) {
  const PackHeader head = head_of(dataset, options);
  if (auto complete = complete_pack(path, head.key, options.on_error)) return *std::move(complete);
  const std::vector<std::int64_t> labels = read_labels(dataset);
  const ImagePacker packer(dataset, options);
  PackWriter writer(path, head, progress.checked);
  SkippedSamples skipped(options.max_skipped.value_or(default_max_skipped(head.samples)));
  count_skipped(writer, options.on_error, skipped);
  PackReport report{.found = writer.found(), .damaged = writer.damaged()};
  const int workers = std::max(options.workers, 1);
  const InOrder range{.first = writer.done(),
                      .end = head.samples,
                      .ahead = kAheadOfEach * workers,
                      .workers = workers};
  std::vector<Slot> slots(static_cast<std::size_t>(range.ahead));
  const auto slot = [&](std::int64_t index) -> Slot& {
    return slots[static_cast<std::size_t>(index % range.ahead)];
  };
  run_in_order(
      range, [&](std::int64_t index) { make_sample(packer, index, options.on_error, slot(index)); },
      [&](std::int64_t index) {
        Slot& made = slot(index);
        if (made.failure) skipped.add(index, *made.failure);
        made.image.label = labels[static_cast<std::size_t>(index)];
        made.failure ? writer.leave_out(*made.failure) : writer.append(made.image);
        if (progress.packed) progress.packed(index + 1, head.samples);
      });
  report.skipped = writer.skipped();
  const PackHeader done = writer.finish({dataset.class_names(), {}, options.origin});
  report.samples = done.samples;
  report.bytes = done.notes_offset() + done.notes_bytes;
  return report;
}

PackWriter::PackWriter(fs::path path, const PackHeader& head, const Progress& checked)
    : path_(std::move(path)),
      partial_path_(path_.string() + ".partial"),
      journal_path_(path_.string() + ".journal"),
      head_(head),
      partial_(open_locked(partial_path_)),
      journal_(open_locked(journal_path_)) {
  resume(checked);
}

PackWriter::~PackWriter() {
  // The kernel reports a write error once per descriptor: a second fsync() would seem to succeed.
  if (failed_ || !partial_.valid()) return;
  try {
    save();
  } catch (const Error&) {
    // The next run makes the images again.
  }
}

/// Never rewrites valid data, so a crash in this function loses nothing.
void PackWriter::resume(const Progress& checked) {
  read_journal();
  const auto on_disk =
      static_cast<std::uint64_t>(std::max<off_t>(::lseek(partial_.get(), 0, SEEK_END), 0));
  const std::size_t named = entries_.size();
  keep(sound_entries(on_disk, checked));
  damaged_ = static_cast<std::int64_t>(named - entries_.size());
  cut(journal_, journal_end_, journal_path_);
  if (journal_end_ == 0) {
    const JournalHead head{.key = head_.key};
    write_all(journal_.get(), bytes_of(head), journal_path_.string());
    journal_end_ = sizeof head;
  }
  if (on_disk < kPackPage) {
    cut(partial_, 0, partial_path_);
    write_all(partial_.get(), std::string(kPackPage, '\0'), partial_path_.string());
  }
  cut(partial_, end_, partial_path_);
}

void PackWriter::read_journal() {
  const std::string journal =
      read_file(journal_path_, std::uint64_t{1} << 40, ReadFailure::resource);
  if (journal.size() < sizeof(JournalHead)) return;
  JournalHead found;
  std::memcpy(&found, journal.data(), sizeof found);
  ENSURE(config, (found == JournalHead{.key = head_.key}),
         "cannot continue {}: the pack was started from other samples, with other options or by "
         "another version of trainctl\nhint: remove {} and {} to start again",
         shown(partial_path_), shown(partial_path_), shown(journal_path_));
  journal_end_ = sizeof found;
  while (done() < head_.samples && take_record(std::string_view(journal).substr(journal_end_)))
    continue;
}

/// Reads the next record. Returns false when it does not continue the previous ones.
bool PackWriter::take_record(std::string_view journal) {
  if (journal.size() < sizeof(PackEntry)) return false;
  PackEntry entry;
  std::memcpy(&entry, journal.data(), sizeof entry);
  if (entry.offset != end_ || entry.name_end < names_.size()) return false;
  const std::uint64_t length = entry.name_end - names_.size();
  if (length > journal.size()) return false;
  const std::string_view name = journal.substr(sizeof entry, length);
  const std::string record = record_of(entry, name);
  if (!journal.starts_with(record)) return false;
  journal_end_ += record.size();
  if (entry.format == kLeftOut) {
    skipped_.push_back({entries_.size(), skipped_of(name)});
    return true;
  }
  names_ += name;
  entries_.push_back(entry);
  record_ends_.push_back(journal_end_);
  end_ += entry.bytes;
  return true;
}

/// Returns the number of leading entries whose bytes match the journal.
std::size_t PackWriter::sound_entries(std::uint64_t on_disk, const Progress& checked) const {
  std::vector<std::byte> bytes;
  const FileReader file(partial_path_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const PackEntry& entry = entries_[i];
    if (entry.offset + entry.bytes > on_disk) return i;
    bytes.resize(entry.bytes);
    file.read(entry.offset, bytes);
    if (hash_bytes(bytes) != entry.hash) return i;
    if (checked) checked(static_cast<std::int64_t>(i + 1), std::ssize(entries_));
  }
  return entries_.size();
}

/// Drops all entries and omitted samples after the first `entries` entries.
void PackWriter::keep(std::size_t entries) {
  if (entries == entries_.size()) return;
  end_ = entries_[entries].offset;
  journal_end_ = entries == 0 ? sizeof(JournalHead) : record_ends_[entries - 1];
  names_.resize(entries == 0 ? 0 : entries_[entries - 1].name_end);
  entries_.resize(entries);
  record_ends_.resize(entries);
  std::erase_if(skipped_, [&](const SkippedEntry& one) { return one.entries >= entries; });
}

std::vector<SkippedSample> PackWriter::skipped() const {
  std::vector<SkippedSample> samples;
  for (const SkippedEntry& one : skipped_) samples.push_back(one.sample);
  return samples;
}

void PackWriter::append(const PackedImage& image) {
  ASSERT(done() < head_.samples);
  ENSURE(data, image.bytes.size() < std::uint64_t{1} << 32,
         "{}: an image in a pack must have less than 4 GiB, got {} bytes\nhint: remove the image",
         image.name, image.bytes.size());
  ENSURE(
      data, image.format != PackFormat::raw || fits_pack(image.shape, head_.channels),
      "{}: the image has {}x{} pixels and {} channel{}, but an image of this pack must have at "
      "most {} pixels per side and {} channel{}\nhint: pack with --mode keep, or remove the image",
      image.name, image.shape.height, image.shape.width, image.shape.channels,
      plural(image.shape.channels), kMostSide, head_.channels, plural(head_.channels));
  ENSURE(data, head_.classes == 0 || (image.label >= 0 && image.label < head_.classes),
         "{}: the label must be from 0 to {} ({} classes), got {}", image.name, head_.classes - 1,
         head_.classes, image.label);
  names_ += image.name;
  PackEntry entry;
  entry.offset = end_;
  entry.hash = hash_bytes(image.bytes);
  entry.label = image.label;
  entry.name_end = names_.size();
  entry.bytes = static_cast<std::uint32_t>(image.bytes.size());
  entry.height = static_cast<std::uint32_t>(image.shape.height);
  entry.width = static_cast<std::uint32_t>(image.shape.width);
  entry.channels = static_cast<std::uint16_t>(image.shape.channels);
  entry.format = image.format;
  entries_.push_back(entry);
  end_ += entry.bytes;
  data_.append(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size());
  records_ += record_of(entry, image.name);
  save_if_due();
}

void PackWriter::leave_out(const SkippedSample& sample) {
  ASSERT(done() < head_.samples);
  skipped_.push_back({entries_.size(), sample});
  const std::string text = sample.name + '\0' + sample.reason;
  PackEntry entry;
  entry.offset = end_;
  entry.name_end = names_.size() + text.size();
  entry.format = kLeftOut;
  records_ += record_of(entry, text);
  save_if_due();
}

void PackWriter::save_if_due() {
  if (data_.size() >= kSaveEvery || records_.size() >= kSaveRecords) save();
}

void PackWriter::save() {
  failed_ = true;
  write_all(partial_.get(), std::exchange(data_, {}), partial_path_.string());
  ENSURE(resource, ::fdatasync(partial_.get()) == 0, "cannot write {}: {}", shown(partial_path_),
         std::strerror(errno));
  write_all(journal_.get(), std::exchange(records_, {}), journal_path_.string());
  failed_ = false;
}

PackHeader PackWriter::finish(PackNotes notes) {
  ASSERT(done() == head_.samples);
  save();
  ENSURE(data, !entries_.empty(), "none of the {} samples can be read", head_.samples);
  notes.skipped = skipped();
  const ImageShape first{entries_[0].height, entries_[0].width, entries_[0].channels};
  const bool one_size = std::ranges::all_of(entries_, [&](const PackEntry& entry) {
    return entry.format == PackFormat::raw &&
           ImageShape{entry.height, entry.width, entry.channels} == first;
  });
  if (one_size) {
    head_.height = entries_[0].height;
    head_.width = entries_[0].width;
  }
  head_.samples = std::ssize(entries_);
  head_.data_bytes = end_ - kPackPage;
  head_.names_bytes = names_.size();
  std::string index(reinterpret_cast<const char*>(entries_.data()),
                    entries_.size() * sizeof(PackEntry));
  index += names_;
  head_.index_hash = hash_bytes(std::as_bytes(std::span(index)));
  const std::string encoded = encode(notes);
  head_.notes_bytes = encoded.size();
  head_.notes_hash = hash_bytes(std::as_bytes(std::span(encoded)));
  failed_ = true;  // what follows is not image data, so the destructor must not save
  write_all(partial_.get(), index + encoded, partial_path_.string());
  const std::string page = header_page(head_);
  ENSURE(resource, ::lseek(partial_.get(), 0, SEEK_SET) == 0, "cannot write {}: {}",
         shown(partial_path_), std::strerror(errno));
  write_all(partial_.get(), page, partial_path_.string());
  publish(partial_path_, partial_.get(), path_);
  partial_.reset();
  std::error_code ignored;
  fs::remove(journal_path_, ignored);
  return head_;
}

Fd open_locked(const fs::path& path, const std::function<void()>& opened) {
  while (true) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    ENSURE(resource, fd.valid(), "cannot write {}: {}\nhint: choose a writable path with --out",
           shown(path), std::strerror(errno));
    if (opened) opened();
    ENSURE(resource, ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0,
           "another process is writing {}\nhint: wait until it has finished", shown(path));
    if (has_name(fd, path)) return fd;
  }
}

}  // namespace trainctl::data
