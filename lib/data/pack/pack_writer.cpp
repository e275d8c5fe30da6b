#include "data/pack/pack_writer.hpp"

#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "data/formats/cache_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace trainctl::data {
namespace {

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
