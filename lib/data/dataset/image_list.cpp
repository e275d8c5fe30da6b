#include "spec/dataset/image_list.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/csv_reader.hpp"
#include "data/manifest.hpp"
#include "data/mapped_file.hpp"
#include "data/registry.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

namespace trainctl::data {
namespace {

using spec::dataset::ImageList;

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
  return ManifestCache(identity);
}

/// The list as it is written, before any file is looked at.
class ListReader {
 public:
  explicit ListReader(const ImageList& options)
      : options_(options),
        file_(options.path),
        reader_({reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()},
                options.path.string(), options.path.extension() == ".csv" ? ',' : '\t') {}

  ImageFiles read() {
    std::vector<CsvField> record;
    for (bool first = true; reader_.next(record); first = false) {
      if (first && !has_image_suffix(record[0].text)) continue;
      add(record);
    }
    const std::size_t count = files_.files.size();
    ENSURE(data, count > 0, "{} names no images; expected a line 'path,label' for each",
           file_.name());
    const auto place = [&](std::size_t i) { return fmt::format("{}:{}", file_.name(), lines_[i]); };
    files_.labels = width_ == 1 ? class_labels(texts_, options_.classes, place)
                                : number_labels(numbers_, static_cast<std::int64_t>(width_));
    return std::move(files_);
  }

 private:
  void add(const std::vector<CsvField>& record) {
    if (files_.files.size() == 0) width_ = record.size() - 1;
    ENSURE(data, record.size() > 1, "{}: a path without a label; expected 'path,label'",
           reader_.place(record[0]));
    ENSURE(data, record.size() == width_ + 1, "{}: {} fields; the first row has {}",
           reader_.place(record[0]), record.size(), width_ + 1);
    ENSURE(data, has_image_suffix(record[0].text),
           "{}: '{}' is no image's name (.jpg .jpeg .png .webp .bmp .tif .tiff)",
           reader_.place(record[0]), printable(record[0].text));
    files_.files.add(record[0].text);
    lines_.push_back(record[0].line);
    if (width_ == 1) {
      texts_.emplace_back(record[1].text);
      return;
    }
    for (std::size_t i = 1; i < record.size(); ++i) {
      ENSURE(data, parse_number(record[i].text, numbers_.emplace_back()), "{}: '{}' is no number",
             reader_.place(record[i]), printable(record[i].text));
    }
  }

  const ImageList& options_;
  MappedFile file_;
  CsvReader reader_;
  ImageFiles files_;
  std::size_t width_ = 0;
  std::vector<std::string> texts_;
  std::vector<float> numbers_;
  std::vector<std::int64_t> lines_;
};

/// Looks at every file that is here; adds the folders that hold them to the dependencies.
void take_stamps(ImageFiles& files, const DataRoot& root, std::vector<Dependency>& dependencies) {
  std::set<fs::path> folders;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    const std::string name(files.files[i]);
    if (is_remote(name)) {
      files.stamps.emplace_back();
      continue;
    }
    files.stamps.push_back(in_context("image list", [&] { return root.open(name).stamp(); }));
    folders.insert((root.folder() / name).parent_path());
  }
  for (const fs::path& folder : folders) dependencies.push_back(dependency_on(folder));
}

void check_rows(const ImageFiles& files, const ImageList& options) {
  ENSURE(data, !options.rows || files.samples() == *options.rows,
         "{} ends with {} rows; 'rows' says {}: was it cut off?", printable(options.path.string()),
         files.samples(), *options.rows);
}

Facts facts_of(const ImageList& options) {
  const ImageFiles files = ListReader(options).read();
  check_rows(files, options);
  return files.facts();
}

/// Nothing is asked of each remote file before it is used: the store tells whether it has changed.
std::shared_ptr<const Dataset> load_unlooked(const ImageList& options, DataRoot root) {
  ImageFiles files = ListReader(options).read();
  files.stamps.resize(files.files.size());
  check_rows(files, options);
  return image_file_dataset(std::move(root), std::move(files), {});
}

std::shared_ptr<const Dataset> load(const ImageList& options) {
  DataRoot root(root_of(options), options.path,
                options.follow_links ? DataRoot::Links::follow : DataRoot::Links::refuse);
  if (is_remote(root.folder()) || is_remote(options.path))
    return load_unlooked(options, std::move(root));
  const ManifestCache cache = cache_of(options);
  std::optional<ImageFiles> files = cache.load();
  if (!files) {
    std::vector<Dependency> dependencies{dependency_on(options.path)};
    files = ListReader(options).read();
    take_stamps(*files, root, dependencies);
    cache.save(dependencies, *files);
  }
  check_rows(*files, options);
  return image_file_dataset(std::move(root), *std::move(files), [cache] { cache.forget(); });
}

}  // namespace

void register_dataset_image_list(Catalogue& catalogue) {
  catalogue.datasets["image_list"] = [](const config::Stage& stage) {
    return load(stage.as<ImageList>());
  };
  catalogue.facts["image_list"] = [](const config::Stage& stage) {
    return facts_of(stage.as<ImageList>());
  };
}

}  // namespace trainctl::data
