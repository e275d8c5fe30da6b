#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "data/formats/folder_scan.hpp"
#include "data/formats/image_files.hpp"
#include "data/image/codec/decoder.hpp"
#include "data/loader/sampling.hpp"
#include "study/init/starter.hpp"

#include <algorithm>
#include <set>

namespace trainctl::study {
namespace {

constexpr std::int64_t kMostProbed = 2048;
constexpr std::int64_t kLeastImages = 10;
constexpr data::ScanOptions kScan{.links = data::DataRoot::Links::follow};

struct ImageFolderFacts {
  fs::path train;
  fs::path val;  // empty: dataset.split divides `train`
  std::vector<std::string> classes;
  ClassSizes sizes;                 // of the classes in `train`
  std::int64_t images = 0;          // in `train`
  std::int64_t probed = 0;          // images of both folders of which the header was read
  std::int64_t skipped = 0;         // estimated number of images that cannot be read
  std::vector<std::string> broken;  // names of those that cannot be read
  std::vector<std::int64_t> sides;  // shorter sides of the others in pixels, sorted

  [[nodiscard]] std::int64_t median_side() const { return sides[sides.size() / 2]; }
};

/// Finds `train` and the folder of validation images. A folder of other names is a class.
void find_splits(const fs::path& folder, ImageFolderFacts& facts) {
  const std::set<std::string> splits{"train", "val", "valid", "validation", "test"};
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(failure) && name[0] != '.' && !splits.contains(name)) return;
  }
  if (!fs::is_directory(folder / "train")) return;
  facts.train = folder / "train";
  for (const char* name : {"val", "valid", "validation"}) {
    if (!fs::is_directory(folder / name)) continue;
    ENSURE(data, facts.val.empty(), "{} and {} are both for validation\nhint: remove one",
           data::shown(facts.val), data::shown(folder / name));
    facts.val = folder / name;
  }
}

/// Reads the headers of images that are spread over the folder. Returns the data set.
auto probe(const fs::path& folder, data::ImageFiles files, ImageFolderFacts& facts) {
  auto dataset =
      data::image_file_dataset(data::DataRoot(folder, kScan.links), std::move(files), {});
  data::ImageDecoder decoder;
  std::vector<std::byte> scratch;
  const std::int64_t images = dataset->size();
  const std::int64_t probed = std::min(images, kMostProbed);
  std::vector<std::string> broken;
  for (std::int64_t i = 0; i < probed; ++i) {
    const std::int64_t index = i * images / probed;
    try {
      const data::ImageShape shape = decoder.open(dataset->images()->read(index, scratch).bytes);
      facts.sides.push_back(std::min(shape.height, shape.width));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      broken.push_back(dataset->images()->name(index));
    }
  }
  ENSURE(data, std::ssize(broken) < probed, "cannot read any of the images in {}, such as {}",
         data::shown(folder), shortened(broken, 3));
  facts.probed += probed;
  facts.skipped += std::ssize(broken) * images / probed;
  facts.broken.insert(facts.broken.end(), broken.begin(), broken.end());
  std::ranges::sort(facts.sides);
  return dataset;
}

ImageFolderFacts inspect_folder(const fs::path& folder) {
  ImageFolderFacts facts{.train = folder};
  find_splits(folder, facts);
  data::ImageFiles files = data::scan_class_folders(facts.train, kScan).files;
  const std::vector<std::string>& classes = facts.classes = files.labels.class_names;
  facts.images = files.samples();
  const std::string name = data::shown(facts.train);
  ENSURE(data, classes.size() > 1,
         "{} has only the class folder '{}', but a classifier needs at least two classes", name,
         printable(classes[0]));
  ENSURE(data, facts.images >= kLeastImages, "{} has {}, but at least {} are needed", name,
         counted(facts.images, "image"), kLeastImages);
  for (const std::string& label : classes) check_name(label, "the name of the class folder");
  const auto dataset = probe(facts.train, std::move(files), facts);
  if (!facts.val.empty()) {
    data::ImageFiles val = data::scan_class_folders(facts.val, kScan).files;
    ENSURE(data, val.labels.class_names == classes,
           "{} and {} must have the same class folders, got {} and {}", name,
           data::shown(facts.val), shortened(classes), shortened(val.labels.class_names));
    (void)probe(facts.val, std::move(val), facts);
  }
  std::vector<std::int64_t> counts(classes.size());
  for (const std::int64_t label : data::read_labels(*dataset))
    ++counts[static_cast<std::size_t>(label)];
  const auto [least, most] = std::ranges::minmax(counts);
  facts.sizes = {least, most};
  return facts;
}

/// Returns the size of the images that the model gets.
std::int64_t crop_for(std::int64_t side) {
  return side < 48 ? 32 : side < 112 ? 64 : side < 192 ? 128 : 224;
}

/// Returns the keys of `dataset` after the splits.
std::string division_text(const ImageFolderFacts& facts) {
  std::string text;
  if (facts.val.empty())
    text += fmt::format(
        "  # There is no folder 'val': a fifth of the images is for validation.\n"
        "  split: {{ val: 0.2{} }}\n",
        facts.sizes.least > 1 ? ", stratify: true" : "");
  if (const std::int64_t broken = std::ssize(facts.broken); broken > 0)
    text += fmt::format(
        "  # Of {} images, {} cannot be read. Other images replace them.\n"
        "  on_error: skip\n  max_skipped: {}\n",
        with_thousands(facts.probed), with_thousands(broken), 2 * facts.skipped);
  return text;
}

constexpr const char* kImageYaml = R"(
dataset:
  train:
    # {0} of {1} classes; the smallest class has {2}.
{3}    transforms:
      # The median of the shorter sides of the images is {4} pixels.
      - {{ type: random_resized_crop, size: {5}, scale: [0.5, 1.0] }}
      # Remove the flip if left and right differ in meaning, as in images of text.
      - random_horizontal_flip
      # Mean and standard deviation of ImageNet; `trainctl data stats` prints those of your images.
      - {{ type: normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }}
  val:
{6}    transforms:
      - {{ type: resize, size: {7} }}
      - {{ type: center_crop, size: {5} }}
      - {{ type: normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }}
{8}
{9}# A ResNet for images of this size. `weights: FILE` starts from pretrained weights.
model: {10}
loss: cross_entropy
optimizer: {{ type: adamw, lr: 0.001, weight_decay: 0.05 }}
# The learning rate falls to 0 along half a cosine.
scheduler: cosine_annealing_lr
metrics: [accuracy]
trainer: {{ max_epochs: 30 }}
checkpoint: {{ monitor: val/accuracy }}
)";

}  // namespace

Starter image_folder_starter(const StarterRequest& request) {
  const ImageFolderFacts facts = inspect_folder(request.data);
  const std::int64_t crop = crop_for(facts.median_side());
  const auto source = [&](const fs::path& folder) {
    return fmt::format("    type: image_folder\n    root: {}\n    follow_links: true\n",
                       path_value(folder, request.file));
  };
  const bool splits = facts.val.empty();
  const std::int64_t trained = splits ? facts.images * 4 / 5 : facts.images;
  return {
      {{"classes", fmt::format("{}: {}", facts.classes.size(), shortened(facts.classes))},
       {"images", fmt::format("{}, {} to {} per class", with_thousands(facts.images),
                              with_thousands(facts.sizes.least), with_thousands(facts.sizes.most))},
       {"validation", splits ? "a fifth of the images" : data::shown(facts.val)},
       {"sizes", fmt::format("shorter side {} to {} pixels, median {}", facts.sides.front(),
                             facts.sides.back(), facts.median_side())},
       {"broken", fmt::format("{} of {} headers{}{}", facts.broken.size(), facts.probed,
                              facts.broken.empty() ? "" : ": ", shortened(facts.broken, 3))}},
      starter_head(request) +
          fmt::format(kImageYaml, counted(facts.images, "image"), facts.classes.size(),
                      with_thousands(facts.sizes.least), source(facts.train), facts.median_side(),
                      crop, splits ? "" : source(facts.val), crop * 8 / 7, division_text(facts),
                      starter_loader(trained, crop < 224 ? 64 : 32, facts.sizes),
                      crop < 128 ? "{ type: resnet_cifar, depth: 20 }" : "resnet18")};
}

}  // namespace trainctl::study
