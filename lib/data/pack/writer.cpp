#include "data/pack/writer.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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

/// Entry, name and a hash of both.
std::string record_of(const PackEntry& entry, std::string_view name) {
  std::string record(bytes_of(entry));
  record += name;
  const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(record)));
  record += bytes_of(hash);
  return record;
}

Fd open_file(const fs::path& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ENSURE(resource, fd.valid(), "cannot write {}: {}; choose a writable folder with --out",
         printable(path.string()), std::strerror(errno));
  return fd;
}

void cut(const Fd& fd, std::uint64_t length, const fs::path& path) {
  const bool done =
      ::ftruncate(fd.get(), static_cast<off_t>(length)) == 0 && ::lseek(fd.get(), 0, SEEK_END) >= 0;
  ENSURE(resource, done, "cannot write {}: {}", printable(path.string()), std::strerror(errno));
}

void sync_data(const Fd& fd, const fs::path& path) {
  ENSURE(resource, ::fdatasync(fd.get()) == 0, "cannot write {}: {}", printable(path.string()),
         std::strerror(errno));
}

fs::path beside(const fs::path& path, const char* suffix) { return path.string() + suffix; }

}  // namespace

PackWriter::PackWriter(fs::path path, const PackHeader& head)
    : path_(std::move(path)),
      partial_path_(beside(path_, ".partial")),
      journal_path_(beside(path_, ".journal")),
      head_(head),
      partial_(open_file(partial_path_)) {
  ENSURE(resource, ::flock(partial_.get(), LOCK_EX | LOCK_NB) == 0,
         "another process is writing {}: wait for its end", printable(partial_path_.string()));
  journal_ = open_file(journal_path_);
  resume();
}

PackWriter::~PackWriter() {
  try {
    if (partial_.valid()) save();
  } catch (const Error&) {
    // What is not saved is made again.
  }
}

void PackWriter::resume() {
  read_journal();
  const auto on_disk =
      static_cast<std::uint64_t>(std::max<off_t>(::lseek(partial_.get(), 0, SEEK_END), 0));
  while (!entries_.empty() && end_ > on_disk) {
    end_ = entries_.back().offset;
    entries_.pop_back();
    names_.resize(entries_.empty() ? 0 : entries_.back().name_end);
  }
  begin_journal();
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
         "{} was begun from other samples or with other options; remove it and {} to begin again",
         printable(partial_path_.string()), printable(journal_path_.string()));
  std::size_t at = sizeof found;
  while (journal.size() - at >= sizeof(PackEntry) && done() < head_.samples) {
    PackEntry entry;
    std::memcpy(&entry, journal.data() + at, sizeof entry);
    if (entry.offset != end_ || entry.name_end < names_.size()) return;
    const std::uint64_t length = entry.name_end - names_.size();
    if (length > journal.size() - at) return;
    const auto name = std::string_view(journal).substr(at + sizeof entry, length);
    const std::string record = record_of(entry, name);
    if (!std::string_view(journal).substr(at).starts_with(record)) return;
    names_ += name;
    entries_.push_back(entry);
    end_ += entry.bytes;
    at += record.size();
  }
}

/// The journal as it is known now: without a tail that was cut off.
void PackWriter::begin_journal() {
  std::string journal(bytes_of(JournalHead{.key = head_.key}));
  std::size_t begin = 0;
  for (const PackEntry& entry : entries_) {
    journal += record_of(entry, std::string_view(names_).substr(begin, entry.name_end - begin));
    begin = entry.name_end;
  }
  cut(journal_, 0, journal_path_);
  write_all(journal_.get(), journal, journal_path_.string());
}

void PackWriter::append(const PackedImage& image) {
  ASSERT(done() < head_.samples);
  ENSURE(data, image.bytes.size() < std::uint64_t{1} << 32,
         "{}: an image of {} bytes does not fit into a pack", image.name, image.bytes.size());
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
  if (data_.size() >= kSaveEvery || records_.size() >= kSaveRecords) save();
}

void PackWriter::save() {
  write_all(partial_.get(), std::exchange(data_, {}), partial_path_.string());
  sync_data(partial_, partial_path_);
  write_all(journal_.get(), std::exchange(records_, {}), journal_path_.string());
}

PackHeader PackWriter::finish() {
  ASSERT(done() == head_.samples);
  save();
  const ImageShape first{entries_[0].height, entries_[0].width, entries_[0].channels};
  const bool one_size = std::ranges::all_of(entries_, [&](const PackEntry& entry) {
    return entry.format == PackFormat::raw &&
           ImageShape{entry.height, entry.width, entry.channels} == first;
  });
  if (one_size) {
    head_.height = entries_[0].height;
    head_.width = entries_[0].width;
  }
  head_.data_bytes = end_ - kPackPage;
  head_.names_bytes = names_.size();
  std::string index(reinterpret_cast<const char*>(entries_.data()),
                    entries_.size() * sizeof(PackEntry));
  index += names_;
  head_.index_hash = hash_bytes(std::as_bytes(std::span(index)));
  write_all(partial_.get(), index, partial_path_.string());
  const std::string page = header_page(head_);
  ENSURE(resource, ::lseek(partial_.get(), 0, SEEK_SET) == 0, "cannot write {}",
         printable(partial_path_.string()));
  write_all(partial_.get(), page, partial_path_.string());
  publish(partial_path_, partial_.get(), path_);
  partial_.reset();
  std::error_code ignored;
  fs::remove(journal_path_, ignored);
  return head_;
}

}  // namespace trainctl::data
