#include "data/pack/pack_format.hpp"

#include "base/hash.hpp"
#include "base/url.hpp"
#include "config/schema/dump.hpp"
#include "config/schema/reader.hpp"
#include "config/tree/yaml.hpp"
#include "data/formats/cache_file.hpp"
#include "spec/load.hpp"
#include "spec/options/dataset.hpp"
#include "spec/plugins.hpp"

#include <sys/stat.h>

namespace trainctl::data {
namespace {

template <class T>
T load(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::uint64_t hash_of(std::span<const std::byte> page) {
  std::array<std::byte, kPackPage> copy;
  std::copy(page.begin(), page.end(), copy.begin());
  std::fill_n(copy.begin() + offsetof(PackHeader, header_hash), sizeof(std::uint64_t),
              std::byte{0});
  return hash_bytes(copy);
}

/// Checks that the sections fill the file exactly; the additions cannot wrap.
void check_length(const PackHeader& header, std::uint64_t size, const std::string& name) {
  const std::uint64_t bytes_after_header = size - kPackPage;
  const auto samples = static_cast<std::uint64_t>(header.samples);
  const bool possible = header.samples > 0 && samples <= size / sizeof(PackEntry) &&
                        header.data_bytes <= size && header.names_bytes <= size &&
                        header.notes_bytes <= size;
  const std::uint64_t wanted =
      possible ? header.data_bytes + header.index_bytes() + header.notes_bytes : ~std::uint64_t{0};
  ENSURE(
      data, wanted == bytes_after_header,
      "{} ends at byte {}, but its header describes {}: the pack is {}\nhint: write it again with "
      "'trainctl data pack'",
      name, size, possible ? fmt::format("{} bytes", kPackPage + wanted) : "more data",
      bytes_after_header < wanted ? "cut off" : "too long");
}

constexpr std::size_t kMostMarks = 4096;  // each costs a stat() whenever the pack is opened

std::optional<PathStamp> mark_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  const FileStamp stamp = stamp_of(info);
  return PathStamp{path.string(), stamp.mtime_ns, S_ISDIR(info.st_mode) ? 0 : stamp.size};
}

void add_texts(const config::Node& node, std::vector<fs::path>& paths) {
  if (node.type == config::Node::Type::scalar && !node.text.empty()) paths.emplace_back(node.text);
  for (const config::Node& item : node.items) add_texts(item, paths);
}

std::vector<fs::path> paths_of(const config::Stage& stage) {
  using config::ValueType;
  std::vector<fs::path> paths;
  const auto add_source = [&](const config::Stage& source) {
    for (fs::path& path : paths_of(source)) paths.push_back(std::move(path));
  };
  if (const auto* concat = stage.get_if<spec::dataset::Concat>())
    std::ranges::for_each(concat->sources, add_source);
  if (const auto* part = stage.get_if<spec::dataset::Subset>()) add_source(part->source);
  for (const config::Field& field : stage.schema->fields) {
    const bool list = field.type.type == ValueType::list && field.type.item;
    if ((list ? field.type.item->type : field.type.type) != ValueType::path) continue;
    add_texts(field.write(stage.options.get()), paths);
  }
  return paths;
}

/// The marks of the named paths and of everything below them.
struct Found {
  std::vector<PathStamp> named;  // named by the options
  std::vector<PathStamp> folders;
  std::vector<PathStamp> files;
  bool many_files = false;

  void look_beneath(const fs::path& folder) {
    std::error_code failure;
    fs::recursive_directory_iterator entry(folder, failure);
    for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
      std::error_code ignored;
      const bool is_folder = entry->is_directory(ignored);
      if (!is_folder && many_files) continue;
      if (const auto mark = mark_of(entry->path())) (is_folder ? folders : files).push_back(*mark);
      many_files = files.size() > kMostMarks;
    }
  }

  std::vector<PathStamp> marks() && {
    std::vector<PathStamp> all = std::move(named);
    all.insert(all.end(), folders.begin(), folders.end());
    if (all.size() + files.size() <= kMostMarks) all.insert(all.end(), files.begin(), files.end());
    if (all.size() > kMostMarks) all.resize(kMostMarks);
    return all;
  }
};

/// Returns the source's current fingerprint, or nothing when it cannot be opened.
std::optional<std::string> fingerprint_now(const std::string& stage, const Catalog& catalog) {
  config::Diagnostics problems;
  const config::Node tree =
      config::parse_yaml(config::make_source("the pack", stage), stage, problems);
  config::Reader reader(spec::vocabulary_in_use(), problems);
  config::Stage source;
  config::Field field;
  field.key = "source";
  if (problems.error_count() > 0 || !reader.stage(tree, field, "dataset", source) ||
      problems.error_count() > 0)
    return std::nullopt;
  try {
    return catalog.datasets.at(source.type)(source)->fingerprint();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data && error.kind() != ErrorKind::config) throw;
    return std::nullopt;
  }
}

std::uint64_t hash_of(const std::string& fingerprint) {
  return hash_bytes(std::as_bytes(std::span(fingerprint)));
}

}  // namespace

std::string header_page(PackHeader header) {
  std::string page(kPackPage, '\0');
  header.header_hash = 0;
  std::memcpy(page.data(), &header, sizeof header);
  header.header_hash = hash_of(std::as_bytes(std::span(page)));
  std::memcpy(page.data(), &header, sizeof header);
  return page;
}

std::uint64_t pack_key(std::string_view fingerprint, std::string_view recipe) {
  Hasher hasher;
  hasher.add(std::uint64_t{kPackVersion});
  hasher.add(static_cast<std::uint64_t>(fingerprint.size()));
  hasher.add(fingerprint);
  hasher.add(recipe);
  return hasher.value();
}

PackHeader PackView::head(std::span<const std::byte> file, const std::string& name) {
  const std::size_t magic = std::min(file.size(), kPackMagic.size());
  ENSURE(data, magic > 0 && std::memcmp(file.data(), kPackMagic.data(), magic) == 0,
         "{} is not a pack: it does not begin with the magic number of a pack", name);
  ENSURE(data, file.size() >= kPackPage,
         "{} ends at byte {}, within its header of {} bytes: the pack is cut off\nhint: write it "
         "again with 'trainctl data pack'",
         name, file.size(), kPackPage);
  const auto header = load<PackHeader>(file, 0);
  ENSURE(data, header.version == kPackVersion,
         "{} is a pack of version {} (byte 8), but this program reads version {}\nhint: write it "
         "again with 'trainctl data pack'",
         name, header.version, kPackVersion);
  ENSURE(data, header.header_hash == hash_of(file.first(kPackPage)),
         "{} is damaged: the checksum of its header (byte 0) is wrong\nhint: write it again with "
         "'trainctl data pack'",
         name);
  check_length(header, file.size(), name);
  const bool fixed = header.height > 0 && header.width > 0;
  ENSURE(data,
         header.channels >= 1 && header.channels <= kMostChannels && header.height <= kMostSide &&
             header.width <= kMostSide && fixed == (header.height > 0 || header.width > 0) &&
             header.classes >= 0,
         "{} is damaged: its header has an invalid image shape ({}x{}x{}) or class count ({})",
         name, header.height, header.width, header.channels, header.classes);
  return header;
}

PackNotes decode_notes(std::string_view bytes, const std::string& name) {
  PackNotes notes;
  ENSURE(data, decode(bytes, notes), "{} is damaged: its metadata is inconsistent", name);
  return notes;
}

PackNotes PackView::notes(std::span<const std::byte> file, const PackHeader& header,
                          const std::string& name) {
  const auto bytes = file.subspan(header.notes_offset(), header.notes_bytes);
  ENSURE(
      data, hash_bytes(bytes) == header.notes_hash,
      "{} is damaged: the checksum of its metadata (byte {}) is wrong\nhint: write it again with "
      "'trainctl data pack'",
      name, header.notes_offset());
  PackNotes notes = decode_notes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
  ENSURE(data, notes.class_names.empty() || std::ssize(notes.class_names) == header.classes,
         "{} is damaged: it has names for {} of its {} classes", name, notes.class_names.size(),
         header.classes);
  return notes;
}

PackView::PackView(std::span<const std::byte> file, const std::string& name)
    : file_(file), header_(head(file, name)), notes_(notes(file, header_, name)) {
  const auto index = file.subspan(header_.index_offset(), header_.index_bytes());
  ENSURE(data, hash_bytes(index) == header_.index_hash,
         "{} is damaged: the checksum of its index (byte {}) is wrong\nhint: write it again with "
         "'trainctl data pack'",
         name, header_.index_offset());
  check_entries(name);
}

void PackView::check_entries(const std::string& name) const {
  std::uint64_t end = kPackPage;
  std::uint64_t name_end = 0;
  const bool fixed = header_.shape().fixed();
  for (std::int64_t i = 0; i < header_.samples; ++i) {
    const PackEntry found = entry(i);
    const ImageShape shape{found.height, found.width, found.channels};
    const bool raw = found.format == PackFormat::raw;
    const bool pixels = raw && fits_pack(shape, header_.channels) && shape.bytes() == found.bytes;
    const bool sound =
        found.offset == end && found.bytes <= header_.index_offset() - end &&
        found.name_end >= name_end && found.name_end <= header_.names_bytes &&
        (pixels || (!raw && found.format == PackFormat::file)) &&
        (!fixed || (raw && shape == header_.shape())) &&
        (header_.classes == 0 || (found.label >= 0 && found.label < header_.classes));
    ENSURE(data, sound,
           "{} is damaged: its index entry of sample {} (byte {}) does not match the file", name, i,
           header_.index_offset() + static_cast<std::uint64_t>(i) * sizeof(PackEntry));
    end += found.bytes;
    name_end = found.name_end;
  }
  ENSURE(data, end == header_.index_offset() && name_end == header_.names_bytes,
         "{} is damaged: its index entries (byte {}) do not cover the whole file", name,
         header_.index_offset());
}

PackEntry PackView::entry(std::int64_t index) const {
  return load<PackEntry>(
      file_, header_.index_offset() + static_cast<std::uint64_t>(index) * sizeof(PackEntry));
}

std::span<const std::byte> PackView::bytes(const PackEntry& entry) const {
  return file_.subspan(entry.offset, entry.bytes);
}

std::string_view PackView::name(std::int64_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : entry(index - 1).name_end;
  const std::uint64_t names =
      header_.index_offset() + static_cast<std::uint64_t>(header_.samples) * sizeof(PackEntry);
  return {reinterpret_cast<const char*>(file_.data() + names + begin),
          entry(index).name_end - begin};
}

PackOrigin record_origin(const config::Stage& source) {
  PackOrigin origin{config::dump(config::write_stage(source)), {}};
  const std::vector<fs::path> paths = paths_of(source);
  if (std::ranges::any_of(paths, is_remote)) return origin;
  Found found;
  for (const fs::path& path : paths) {
    const bool pattern = !fs::exists(path);  // a pattern of shards
    const auto mark = mark_of(pattern ? path.parent_path() : path);
    if (!mark) continue;
    found.named.push_back(*mark);
    if (fs::is_directory(mark->path)) found.look_beneath(mark->path);
  }
  origin.marks = std::move(found).marks();
  return origin;
}

void check_pack_origin(const PackHeader& header, const PackOrigin& origin, const Catalog& catalog,
                       const std::string& file) {
  const PathStamp* changed = nullptr;
  std::size_t left = 0;
  for (const PathStamp& mark : origin.marks) {
    const auto now = mark_of(mark.path);
    if (now) ++left;
    if (now != mark) changed = &mark;  // prefers the last mark: files come after their folders
  }
  // If only the root folder is left, it may be the mount point of an unmounted disk.
  const bool gone = left == 0 || (left == 1 && origin.marks.size() > 1);
  if (changed == nullptr || gone) return;
  const auto fingerprint = fingerprint_now(origin.stage, catalog);
  ENSURE(data, fingerprint && hash_of(*fingerprint) == header.source,
         "{} is stale: '{}' has changed since the pack was made\nhint: make the pack again with "
         "'trainctl data pack' (the options were: {}), or set 'on_stale: ignore' to use the pack "
         "as it is",
         file, printable(changed->path), printable(header.recipe_text()));
}

void check_pack_source(const PackHeader& header, const std::string& fingerprint,
                       const std::string& file) {
  ENSURE(data, header.source == hash_of(fingerprint),
         "{} is stale: its samples differ from those that 'source' has now\nhint: make the pack "
         "again with 'trainctl data pack' (the options were: {}), or remove 'source'",
         file, printable(header.recipe_text()));
}

}  // namespace trainctl::data
