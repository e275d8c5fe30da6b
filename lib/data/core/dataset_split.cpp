#include "data/core/dataset_split.hpp"

#include "base/hash.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/pipeline.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/formats/image_files.hpp"

#include <system_error>

namespace trainctl::data {
namespace {

const Field kClassLabel{"label", Dtype::i64, {}};

struct DividedSet {
  std::shared_ptr<const Dataset> whole;
  Parts parts;  // indexed by spec::Part
};

std::size_t part_index(spec::Part part) { return static_cast<std::size_t>(part); }

/// Requests the parts of spec::Part, or the folds followed by test.
PartitionRequest partition_request(const spec::SplitOptions& options, std::int64_t samples) {
  PartitionRequest request{.samples = samples, .shares = options.shares(), .seed = options.seed};
  for (const char* name : enum_names(spec::Part())) request.part_names.emplace_back(name);
  if (!options.folds) return request;
  ENSURE(config, *options.folds <= samples,
         "there must be at most as many folds as samples, got {} folds and {} samples\nhint: lower "
         "the number of folds (--folds, or dataset.split.folds)",
         *options.folds, samples);
  request.shares.assign(static_cast<std::size_t>(*options.folds), options.share(spec::Part::val));
  request.part_names.clear();
  for (std::int64_t fold = 0; fold < *options.folds; ++fold)
    request.part_names.push_back(fmt::format("fold {}", fold));
  request.shares.push_back(options.test);
  request.part_names.emplace_back("test");
  return request;
}

/// Returns the part to which a part of partition_request() belongs.
std::size_t part_of_request(const spec::SplitOptions& options, std::size_t requested) {
  if (!options.folds) return requested;
  const auto number = static_cast<std::int64_t>(requested);
  if (number == *options.folds) return part_index(spec::Part::test);
  return part_index(number == options.fold ? spec::Part::val : spec::Part::train);
}

void check_layout(const Layout& layout, std::int64_t classes, const spec::SplitOptions& options) {
  ENSURE(config, find_field(layout, "targets") == layout.size(),
         "dataset.split cannot divide tokens: neighboring samples belong to one text\nhint: set "
         "dataset.val to a token file with different text");
  const bool classed = classes > 0 && std::ranges::find(layout, kClassLabel) != layout.end();
  ENSURE(config, !options.stratify || classed,
         "dataset.split.stratify needs labels that are classes, but this data set has none\nhint: "
         "remove 'stratify'");
}

std::vector<std::uint32_t> groups_of(const spec::DataSplit& split, const Catalog& catalog,
                                     std::int64_t samples) {
  if (!split.part->options.group_by) return {};
  const auto found = catalog.groups.find(split.dataset.type);
  ENSURE(config, found != catalog.groups.end(),
         "dataset.split.group_by names a column, but the data set '{}' has no columns\nhint: use "
         "image_list, csv or parquet, or remove 'group_by'",
         split.dataset.type);
  std::vector<std::uint32_t> groups = found->second(split.dataset);
  ENSURE(data, std::ssize(groups) == samples,
         "the data set has changed since it was opened: it had {} samples, but now has {}",
         with_thousands(samples), with_thousands(std::ssize(groups)));
  return groups;
}

std::shared_ptr<const DividedSet> open_divided(const spec::DataSplit& split,
                                               const Catalog& catalog) {
  const spec::PartOfSet& part = *split.part;
  const std::lock_guard lock(part.source->mutex);
  if (const auto open = part.source->value.lock())
    return std::static_pointer_cast<const DividedSet>(open);
  auto set = std::make_shared<DividedSet>();
  spec::DataSplit whole{split.dataset, {}};
  set->whole = build_dataset(whole, catalog);
  check_layout(set->whole->layout(), set->whole->classes(), part.options);
  const auto labels =
      part.options.stratify ? read_labels(*set->whole) : std::vector<std::int64_t>();
  set->parts = divide(part.options, set->whole->size(), labels,
                      groups_of(split, catalog, set->whole->size()), set->whole->class_names());
  part.source->value = std::static_pointer_cast<const void>(std::shared_ptr<const DividedSet>(set));
  return set;
}

constexpr std::uint64_t kMostListBytes = std::uint64_t{1} << 30;

struct Pictures {
  fs::path folder;
  ImageFiles files;
};

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// Returns the path on a line of a list, or an empty string for an empty line.
std::string path_on(std::string line, const std::string& place) {
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) return line;
  ENSURE(data, !is_remote(line), "{}: the path must be a local path, got '{}'", place,
         printable(line));
  ENSURE(data, has_image_suffix(line),
         "{}: '{}' must end in .jpg, .jpeg, .png, .webp, .bmp, .tif or .tiff", place,
         printable(line));
  return line;
}

Pictures read_list(const fs::path& list) {
  Pictures found{folder_of(list), {}};
  const DataRoot root(found.folder, DataRoot::Links::follow);
  std::size_t number = 0;
  for (std::string& line : split(read_file(list, kMostListBytes, ReadFailure::data), '\n')) {
    const std::string place = fmt::format("{}:{}", printable(list.string()), ++number);
    const std::string path = path_on(std::move(line), place);
    if (path.empty()) continue;
    found.files.files.add(path);
    found.files.stamps.push_back(in_context(place, [&] { return root.open(path).stamp(); }));
  }
  return found;
}

Pictures one_picture(const fs::path& file) {
  Pictures found{folder_of(file), {}};
  const std::string name = file.filename().string();
  found.files.files.add(name);
  found.files.stamps.push_back(DataRoot(found.folder, DataRoot::Links::follow).open(name).stamp());
  return found;
}

Pictures listed(const fs::path& input) {
  std::error_code ignored;
  const fs::file_status found = fs::status(input, ignored);
  if (fs::is_directory(found)) return {input, scan_pictures(input)};
  ENSURE(
      config, fs::status_known(found) && fs::exists(found),
      "no such file or folder\nhint: name a local folder of images, list of images or image file");
  ENSURE(config, fs::is_regular_file(found),
         "the list must be a regular file, not a pipe or device\nhint: write the list to a file");
  return has_image_suffix(input.string()) ? one_picture(input) : read_list(input);
}

Pictures find_pictures(const fs::path& input) {
  Pictures found = listed(input);
  const std::size_t count = found.files.files.size();
  ENSURE(data, count > 0, "no images found (.jpg .jpeg .png .webp .bmp .tif .tiff)");
  found.files.labels.rows.resize(count * sizeof(std::int64_t));
  found.files.labels.classes = 1;
  return found;
}

}  // namespace

void GroupColumn::add(std::string_view text) {
  auto found = numbers_.find(text);
  if (found == numbers_.end())
    found = numbers_.emplace(std::string(text), static_cast<std::uint32_t>(numbers_.size())).first;
  groups_.push_back(found->second);
}

Parts divide(const spec::SplitOptions& options, std::int64_t samples,
             const std::vector<std::int64_t>& labels, const std::vector<std::uint32_t>& groups,
             const std::vector<std::string>& class_names) {
  const Parts requested = in_context("dataset.split", [&] {
    PartitionRequest request = partition_request(options, samples);
    request.strata = labels;
    request.groups = groups;
    request.stratum_name = [&](std::int64_t stratum) {
      const auto at = static_cast<std::size_t>(stratum);
      return at < class_names.size() ? "class '" + printable(class_names[at]) + "'"
                                     : fmt::format("class {}", stratum);
    };
    return partition(request);
  });
  Parts parts(enum_names(spec::Part()).size());
  for (std::size_t i = 0; i < requested.size(); ++i) {
    std::vector<std::int64_t>& part = parts[part_of_request(options, i)];
    part.insert(part.end(), requested[i].begin(), requested[i].end());
  }
  for (std::vector<std::int64_t>& part : parts) std::ranges::sort(part);
  return parts;
}

std::shared_ptr<const Dataset> part_of_set(const spec::DataSplit& split, const Catalog& catalog) {
  const auto set = open_divided(split, catalog);
  // The part keeps the whole data set alive, and so the division that the other parts share.
  const std::shared_ptr<const Dataset> whole(set, set->whole.get());
  return subset(whole, set->parts[part_index(split.part->part)]);
}

void keep_part(Facts& facts, const spec::DataSplit& split, const Catalog& catalog) {
  const spec::PartOfSet& part = *split.part;
  check_layout(facts.layout, facts.classes, part.options);
  if (part.options.stratify || part.options.group_by) {
    facts.samples = std::ssize(open_divided(split, catalog)->parts[part_index(part.part)]);
    return;
  }
  const std::vector<std::int64_t> sizes = in_context(
      "dataset.split", [&] { return part_sizes(partition_request(part.options, facts.samples)); });
  facts.samples = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    facts.samples += part_of_request(part.options, i) == part_index(part.part) ? sizes[i] : 0;
}

std::string division_digest(const spec::DataSplit& train) {
  const auto set = open_divided(train, catalog_in_use());
  Hasher hasher;
  hasher.add(set->whole->membership());
  for (const std::vector<std::int64_t>& samples : set->parts)
    hasher.add(static_cast<std::uint64_t>(samples.size())),
        hasher.add(std::as_bytes(std::span(samples)));
  return hasher.hex();
}

Json split_document(const spec::DataSplit& train) {
  const auto set = open_divided(train, catalog_in_use());
  const spec::SplitOptions& options = train.part->options;
  Json samples = Json::object();
  for (std::size_t part = 0; part < set->parts.size(); ++part)
    samples[enum_names(spec::Part())[part]] = set->parts[part].size();
  return {{"schema", "trainctl.split/2"},
          {"data_fingerprint", set->whole->fingerprint()},
          {"seed", options.seed},
          {"shares",
           {{"val", options.share(spec::Part::val)}, {"test", options.share(spec::Part::test)}}},
          {"folds", options.folds ? Json(*options.folds) : Json(nullptr)},
          {"fold", options.folds ? Json(options.fold) : Json(nullptr)},
          {"stratify", options.stratify},
          {"group_by", options.group_by ? Json(*options.group_by) : Json(nullptr)},
          {"samples", samples},
          {"val", set->parts[part_index(spec::Part::val)]},
          {"test", set->parts[part_index(spec::Part::test)]}};
}

namespace {

class Subset final : public Dataset, public ImageStore, public ImageRanges, public Fetchable {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}

  [[nodiscard]] std::int64_t size() const override { return std::ssize(indices_); }
  [[nodiscard]] const Layout& layout() const override { return dataset_->layout(); }
  [[nodiscard]] std::int64_t classes() const override { return dataset_->classes(); }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return dataset_->class_names();
  }
  [[nodiscard]] std::int64_t tile_rows() const override { return dataset_->tile_rows(); }
  [[nodiscard]] bool in_memory() const override { return dataset_->in_memory(); }
  /// Returns a proportional share, so that the footprints of all subsets of a data set add up to
  /// the whole.
  [[nodiscard]] Footprint footprint() const override {
    const Footprint whole = dataset_->footprint();
    const double share = static_cast<double>(size()) / static_cast<double>(dataset_->size());
    return {static_cast<std::uint64_t>(static_cast<double>(whole.memory) * share) +
                indices_.size() * sizeof(std::int64_t),
            static_cast<std::uint64_t>(static_cast<double>(whole.mapped) * share)};
  }
  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    std::vector<std::int64_t> of_whole;
    of_whole.reserve(indices.size());
    for (const std::int64_t index : indices) of_whole.push_back(at(index));
    dataset_->fill(of_whole, rows);
  }
  [[nodiscard]] const ImageStore* images() const override {
    return dataset_->images() == nullptr ? nullptr : this;
  }
  [[nodiscard]] const Fetchable* fetchable() const override {
    return dataset_->fetchable() == nullptr ? nullptr : this;
  }
  [[nodiscard]] Mixture mixture() const override {
    Mixture whole = dataset_->mixture();
    if (whole.weights.empty()) return whole;
    Mixture mixture{std::move(whole.weights), {}};
    for (const std::int64_t index : indices_)
      mixture.groups.push_back(whole.groups[static_cast<std::size_t>(index)]);
    return mixture;
  }
  [[nodiscard]] std::string fingerprint() const override { return digest(dataset_->fingerprint()); }
  [[nodiscard]] std::string membership() const override { return digest(dataset_->membership()); }

  [[nodiscard]] StoredImage read(std::int64_t index,
                                 std::vector<std::byte>& scratch) const override {
    return dataset_->images()->read(at(index), scratch);
  }
  [[nodiscard]] std::string name(std::int64_t index) const override {
    return dataset_->images()->name(at(index));
  }
  void prefetch(std::int64_t index) const override { dataset_->images()->prefetch(at(index)); }
  [[nodiscard]] const ImageRanges* ranges() const override {
    return dataset_->images()->ranges() == nullptr ? nullptr : this;
  }

  [[nodiscard]] std::uint64_t bytes() const override {
    const double share = static_cast<double>(size()) / static_cast<double>(dataset_->size());
    return static_cast<std::uint64_t>(static_cast<double>(whole_ranges().bytes()) * share);
  }
  [[nodiscard]] FileRange range(std::int64_t index) const override {
    return whole_ranges().range(at(index));
  }
  [[nodiscard]] FileReader open(std::size_t file) const override {
    return whole_ranges().open(file);
  }
  [[nodiscard]] StoredImage image(std::int64_t index,
                                  std::span<const std::byte> bytes) const override {
    return whole_ranges().image(at(index), bytes);
  }

  std::uint64_t fetch(std::int64_t index) const override {
    return dataset_->fetchable()->fetch(at(index));
  }
  [[nodiscard]] std::string object(std::int64_t index) const override {
    return dataset_->fetchable()->object(at(index));
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t index) const {
    return indices_.at(static_cast<std::size_t>(index));
  }
  [[nodiscard]] std::string digest(const std::string& of_whole) const {
    Hasher hasher;
    hasher.add(of_whole);
    hasher.add(std::as_bytes(std::span(indices_)));
    return hasher.hex();
  }
  [[nodiscard]] const ImageRanges& whole_ranges() const { return *dataset_->images()->ranges(); }

  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::int64_t> indices) {
  for (const std::int64_t index : indices)
    ENSURE(data, index >= 0 && index < dataset->size(),
           "sample {} does not exist: the split has {} samples", index, dataset->size());
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

std::vector<std::uint8_t> shrunk(const ImageView& image, std::int64_t most, ImageShape& shape) {
  const ImageShape& from = image.shape;
  const std::int64_t longest = std::max(from.height, from.width);
  const std::int64_t block = std::max<std::int64_t>(1, (longest + most - 1) / most);
  shape = {std::max<std::int64_t>(1, from.height / block),
           std::max<std::int64_t>(1, from.width / block), from.channels};
  std::vector<std::uint8_t> pixels;
  pixels.reserve(shape.bytes());
  for (std::int64_t y = 0; y < shape.height; ++y) {
    for (std::int64_t x = 0; x < shape.width * shape.channels; ++x) {
      const std::int64_t column = x / shape.channels;
      const std::int64_t channel = x % shape.channels;
      std::int64_t sum = 0;
      std::int64_t count = 0;
      for (std::int64_t i = y * block; i < std::min((y + 1) * block, from.height); ++i) {
        for (std::int64_t j = column * block; j < std::min((column + 1) * block, from.width); ++j) {
          sum += image.row(i)[j * from.channels + channel];
          ++count;
        }
      }
      pixels.push_back(static_cast<std::uint8_t>((sum + count / 2) / count));
    }
  }
  return pixels;
}

Unlabeled unlabeled_split(const fs::path& input, const std::vector<config::Stage>& transforms) {
  Unlabeled out{{}, catalog_in_use()};
  // Error messages use these names.
  out.split.dataset.kind = "--input";
  out.split.dataset.type = printable(input.string());
  out.split.transforms = transforms;
  out.catalog.facts[out.split.dataset.type] = [input](const config::Stage&) {
    return find_pictures(input).files.facts();
  };
  out.catalog.datasets[out.split.dataset.type] = [input](const config::Stage&) {
    Pictures found = find_pictures(input);
    return image_file_dataset(DataRoot(std::move(found.folder), DataRoot::Links::follow),
                              std::move(found.files), {});
  };
  return out;
}

}  // namespace trainctl::data
