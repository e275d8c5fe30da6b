#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/registry.hpp"
#include "data/formats/csv_reader.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/formats/manifest.hpp"
#include "data/formats/mapped_file.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::ImageFolder;

ManifestCache cache_of(const ImageFolder& options) {
  std::string identity = "image_folder";
  identity += options.allow_empty ? '1' : '0';
  identity += options.follow_links ? '1' : '0';
  return ManifestCache(identity + fs::absolute(options.root).lexically_normal().string());
}

DataRoot::Links links_of(const auto& options) {
  return options.follow_links ? DataRoot::Links::follow : DataRoot::Links::refuse;
}

FolderScan scan(const ImageFolder& options, Stamps stamps) {
  return scan_class_folders(
      options.root, {links_of(options),
                     options.allow_empty ? EmptyClasses::allow : EmptyClasses::refuse, stamps});
}

Facts facts_of(const ImageFolder& options) {
  if (is_remote(options.root)) return scan_remote_classes(options.root).facts();
  if (std::optional<Facts> known = cache_of(options).facts()) return *std::move(known);
  return scan(options, Stamps::leave).files.facts();
}

std::shared_ptr<const Dataset> load(const ImageFolder& options) {
  if (is_remote(options.root)) {
    return image_file_dataset(DataRoot(options.root), scan_remote_classes(options.root),
                              [root = options.root] { forget_remote_classes(root); });
  }
  const ManifestCache cache = cache_of(options);
  std::optional<ImageFiles> files = cache.load();
  if (!files || !is_as_listed(options.root, *files)) {
    FolderScan found = scan(options, Stamps::take);
    cache.save(found.folders, found.files);
    files = std::move(found.files);
  }
  return image_file_dataset(DataRoot(options.root, links_of(options)), *std::move(files),
                            [cache] { cache.forget(); });
}

using spec::dataset::ImageList;

constexpr std::size_t kLookedAt = 8;  // files that a check of the list examines

fs::path root_of(const ImageList& options) {
  if (options.root) return *options.root;
  return options.path.has_parent_path() ? options.path.parent_path() : fs::path(".");
}

ManifestCache cache_of(const ImageList& options) {
  std::string identity = "image_list";
  identity += options.follow_links ? '1' : '0';
  for (const fs::path& path : {options.path, root_of(options)}) {
    identity += identity_of(path) + '\0';
  }
  for (const std::string& name : options.classes) identity += name + '\0';
  if (options.group_by) identity += "group" + ('\0' + *options.group_by);
  return ManifestCache(identity);
}

DataRoot open_root(const ImageList& options) {
  return DataRoot(root_of(options), options.path, links_of(options));
}

/// Returns whether the first line is a header. A line that may be a sample is not a header.
bool is_head(const std::vector<CsvField>& record) {
  double ignored = 0;
  return record[0].text.find_first_of("/\\.") == std::string_view::npos &&
         std::ranges::none_of(record,
                              [&](auto& field) { return parse_finite(field.text, ignored); });
}

struct Listing {
  ImageFiles files;
  std::vector<std::int64_t> lines;    // of each file
  std::vector<std::uint32_t> groups;  // of each file; empty without 'group_by'
};

/// Reads the list without accessing the files.
class ListReader {
 public:
  explicit ListReader(const ImageList& options)
      : options_(options),
        file_(options.path),
        reader_({reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()},
                options.path.string(),
                lower_case(options.path.extension().string()) == ".csv" ? ',' : '\t') {}

  Listing read() {
    std::vector<CsvField> record;
    for (bool first = true; reader_.next(record); first = false) {
      if (first && options_.group_by) find_group(record);
      if (!first || !is_head(record)) add(record);
    }
    const std::size_t count = files_.files.size();
    ENSURE(data, count > 0, "{} lists no images: each image needs a line 'path,label'",
           file_.name());
    const auto place = [&](std::size_t i) { return fmt::format("{}:{}", file_.name(), lines_[i]); };
    files_.labels = width_ == 1 ? class_labels(texts_, options_.classes, place)
                                : number_labels(numbers_, static_cast<std::int64_t>(width_));
    return {std::move(files_), std::move(lines_), groups_.take()};
  }

 private:
  /// Requires a header when samples are grouped by a column.
  void find_group(const std::vector<CsvField>& head) {
    const std::string& name = *options_.group_by;
    const auto found = std::ranges::find(head, name, &CsvField::text);
    ENSURE(data, is_head(head) && found != head.end(),
           "{}: the first line must name the column '{}' of dataset.split.group_by, such as "
           "'path,label,{}'",
           file_.name(), printable(name), printable(name));
    group_ = static_cast<std::size_t>(found - head.begin());
    ENSURE(config, *group_ > 0,
           "dataset.split.group_by must not name the first column, which contains the paths");
  }

  void add(std::vector<CsvField>& record) {
    if (group_ && *group_ < record.size()) {
      groups_.add(record[*group_].text);
      record.erase(record.begin() + static_cast<std::ptrdiff_t>(*group_));
    }
    if (files_.files.size() == 0) width_ = record.size() - 1;
    ENSURE(data, record.size() > 1, "{}: the line must be 'path,label', got a path without a label",
           reader_.place(record[0]));
    ENSURE(data, record.size() == width_ + 1,
           "{}: the line has {} fields, but the line of the first image has {}",
           reader_.place(record[0]), record.size(), width_ + 1);
    ENSURE(data, !group_ || groups_.size() == files_.files.size() + 1,
           "{}: the line has no field in column '{}'", reader_.place(record[0]),
           printable(options_.group_by.value_or("")));
    ENSURE(data, has_image_suffix(record[0].text),
           "{}: '{}' must end in .jpg, .jpeg, .png, .webp, .bmp, .tif or .tiff",
           reader_.place(record[0]), printable(record[0].text));
    files_.files.add(record[0].text);
    lines_.push_back(record[0].line);
    if (width_ == 1) {
      texts_.emplace_back(record[1].text);
      return;
    }
    for (std::size_t i = 1; i < record.size(); ++i) {
      ENSURE(data, parse_finite(record[i].text, numbers_.emplace_back()),
             "{}: '{}' is not a number", reader_.place(record[i]), printable(record[i].text));
    }
  }

  const ImageList& options_;
  MappedFile file_;
  CsvReader reader_;
  ImageFiles files_;
  std::size_t width_ = 0;
  std::optional<std::size_t> group_;  // index of the group column
  GroupColumn groups_;
  std::vector<std::string> texts_;
  std::vector<float> numbers_;
  std::vector<std::int64_t> lines_;
};

FileStamp stamp_of_file(const Listing& listing, std::size_t i, const DataRoot& root,
                        const ImageList& options) {
  const std::string name(listing.files.files[i]);
  return in_context(fmt::format("{}:{}", shown(options.path), listing.lines[i]),
                    [&] { return root.open(name).stamp(); });
}

/// Calls stat() on every file and adds their folders to the dependencies.
void take_stamps(Listing& listing, const DataRoot& root, const ImageList& options,
                 std::vector<PathStamp>& dependencies) {
  std::set<fs::path> folders;
  ImageFiles& files = listing.files;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    files.stamps.push_back(stamp_of_file(listing, i, root, options));
    folders.insert((root.folder() / files.files[i]).parent_path());
  }
  for (const fs::path& folder : folders) dependencies.push_back(dependency_on(folder));
}

void check_rows(const ImageFiles& files, const ImageList& options) {
  ENSURE(data, !options.rows || files.samples() == *options.rows,
         "{} lists {}, but 'rows' is {}; the file may be cut off", shown(options.path),
         counted(files.samples(), "image"), with_thousands(*options.rows));
}

bool is_remote_list(const ImageList& options) {
  return is_remote(options.path) || is_remote(root_of(options));
}

Facts facts_of(const ImageList& options) {
  const Listing listing = ListReader(options).read();
  check_rows(listing.files, options);
  if (!is_remote_list(options) && !names_remote(listing.files)) {
    const DataRoot root = open_root(options);
    for (std::size_t i = 0; i < std::min(kLookedAt, listing.files.files.size()); ++i)
      (void)stamp_of_file(listing, i, root, options);
  }
  return listing.files.facts();
}

/// Does not stat remote files before they are used: the object store detects changes.
std::shared_ptr<const Dataset> load_unlooked(const ImageList& options, ImageFiles files) {
  files.stamps.resize(files.files.size());
  check_rows(files, options);
  return image_file_dataset(open_root(options), std::move(files), {});
}

std::shared_ptr<const Dataset> load(const ImageList& options) {
  if (is_remote_list(options)) return load_unlooked(options, ListReader(options).read().files);
  DataRoot root = open_root(options);
  const ManifestCache cache = cache_of(options);
  std::optional<ImageFiles> files = cache.load();
  if (!files || !is_as_listed(root.folder(), *files)) {
    std::vector<PathStamp> dependencies{dependency_on(options.path)};
    Listing listing = ListReader(options).read();
    if (names_remote(listing.files)) return load_unlooked(options, std::move(listing.files));
    take_stamps(listing, root, options, dependencies);
    cache.save(dependencies, listing.files);
    files = std::move(listing.files);
  }
  check_rows(*files, options);
  return image_file_dataset(std::move(root), *std::move(files), [cache] { cache.forget(); });
}

template <class Options>
void register_images(Catalog& catalog, const char* type) {
  catalog.datasets[type] = [](const config::Stage& stage) { return load(stage.as<Options>()); };
  catalog.facts[type] = [](const config::Stage& stage) { return facts_of(stage.as<Options>()); };
}

}  // namespace

void register_dataset_image_folder(Catalog& catalog) {
  register_images<ImageFolder>(catalog, "image_folder");
}

void register_dataset_image_list(Catalog& catalog) {
  register_images<ImageList>(catalog, "image_list");
  catalog.groups["image_list"] = [](const config::Stage& stage) {
    return ListReader(stage.as<ImageList>()).read().groups;
  };
}

}  // namespace trainctl::data
