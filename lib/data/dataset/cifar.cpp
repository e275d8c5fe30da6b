#include "data/dataset/cifar.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/core/registry.hpp"
#include "data/dataset/fetch_advice.hpp"
#include "data/formats/archive.hpp"
#include "data/remote/local_tier.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {
namespace {

constexpr std::int64_t kCifarSide = 32;
constexpr std::int64_t kCifarPlane = kCifarSide * kCifarSide;
constexpr std::int64_t kCifarPixels = 3 * kCifarPlane;
constexpr std::int64_t kBlockRecords = 64;  // read per call

std::uint64_t record_bytes(const CifarSplit& split) {
  return static_cast<std::uint64_t>(split.label_bytes + kCifarPixels);
}

std::uint64_t file_bytes(const CifarSplit& split) {
  return record_bytes(split) * static_cast<std::uint64_t>(split.records);
}

Facts facts_of(const CifarSplit& split) {
  return MemoryDataset::facts(split.records * std::ssize(split.files), split.classes,
                              {kCifarSide, kCifarSide, 3});
}

/// Fills the memory of a split from its files, in any order.
class Filler {
 public:
  explicit Filler(const CifarSplit& split)
      : split_(split),
        facts_(facts_of(split)),
        images_(image_memory(facts_)),
        labels_(static_cast<std::size_t>(facts_.samples)),
        block_(record_bytes(split) * kBlockRecords) {}

  /// Reads file number `file` through `read`, which fills its span or throws. `name` is for
  /// messages.
  template <class Read>
  void fill(std::size_t file, const std::string& name, Read&& read) {
    const std::int64_t first = static_cast<std::int64_t>(file) * split_.records;
    for (std::int64_t done = 0; done < split_.records; done += kBlockRecords) {
      const std::int64_t count = std::min(kBlockRecords, split_.records - done);
      read(std::span(block_).first(record_bytes(split_) * static_cast<std::size_t>(count)));
      for (std::int64_t i = 0; i < count; ++i) take(i, first + done + i, name, done + i);
    }
  }

  std::shared_ptr<const Dataset> finish() {
    return std::make_shared<const MemoryDataset>(facts_, std::move(images_), std::move(labels_));
  }

 private:
  void take(std::int64_t in_block, std::int64_t sample, const std::string& name,
            std::int64_t record) {
    const std::byte* from =
        block_.data() + record_bytes(split_) * static_cast<std::size_t>(in_block);
    const auto label = std::to_integer<std::uint8_t>(from[split_.label_at]);
    ENSURE(data, label < split_.classes, "{} has label {} at byte {}: labels must be 0 to {}", name,
           label,
           record_bytes(split_) * static_cast<std::uint64_t>(record) +
               static_cast<std::uint64_t>(split_.label_at),
           split_.classes - 1);
    labels_[static_cast<std::size_t>(sample)] = label;
    const std::byte* planes = from + split_.label_bytes;
    std::byte* out = images_.bytes().data() + sample * kCifarPixels;
    for (std::int64_t pixel = 0; pixel < kCifarPlane; ++pixel) {
      for (std::int64_t channel = 0; channel < 3; ++channel)
        *out++ = planes[channel * kCifarPlane + pixel];
    }
  }

  const CifarSplit& split_;
  Facts facts_;
  Arena images_;
  std::vector<std::uint8_t> labels_;
  std::vector<std::byte> block_;
};

void expect_size(std::uint64_t found, const std::string& name, const CifarSplit& split) {
  ENSURE(data, found == file_bytes(split),
         "{} ends at byte {}, but must end at byte {} ({} samples of {} bytes)", name, found,
         file_bytes(split), split.records, record_bytes(split));
}

void read_files(Filler& filler, const std::vector<fs::path>& paths, const CifarSplit& split) {
  for (std::size_t file = 0; file < paths.size(); ++file) {
    const auto source = open_source(paths[file]);
    expect_size(source->most(), shown(paths[file]), split);
    std::uint64_t offset = 0;
    filler.fill(file, shown(paths[file]), [&](std::span<std::byte> out) {
      const std::size_t got = source->read(out);
      offset += got;
      if (got < out.size())
        expect_size(offset, shown(paths[file]), split);  // the file shrank during the read
    });
  }
}

void read_archive(Filler& filler, const fs::path& archive, const CifarSplit& split) {
  const auto source = open_source(archive);
  TarReader tar(*source, archive.string());
  TarMember member;
  std::vector<bool> found(split.files.size());
  while (tar.next(member)) {
    const std::string name = fs::path(member.name).filename();
    const auto wanted = std::find(split.files.begin(), split.files.end(), name);
    if (wanted == split.files.end()) continue;
    const auto file = static_cast<std::size_t>(wanted - split.files.begin());
    const std::string where = shown(archive) + ":" + printable(member.name);
    ENSURE(data, !found[file], "{} contains {} twice", shown(archive), name);
    expect_size(member.size, where, split);
    filler.fill(file, where, [&](std::span<std::byte> out) { tar.read_part(out); });
    found[file] = true;
  }
  for (std::size_t file = 0; file < found.size(); ++file) {
    ENSURE(data, found[file], "{} does not contain {}", shown(archive), split.files[file]);
  }
}

CifarFiles cifar10_files(const config::Stage& stage) {
  const auto& options = stage.as<spec::dataset::Cifar10>();
  CifarSplit split{.type = "cifar10",
                   .archive = "cifar-10-binary.tar.gz",
                   .folder = "cifar-10-batches-bin",
                   .files = {"test_batch.bin"},
                   .records = 10'000,
                   .classes = 10};
  if (options.split == spec::Split::train) {
    split.files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                   "data_batch_5.bin"};
  }
  return {options.root, std::move(split)};
}

CifarFiles cifar100_files(const config::Stage& stage) {
  const auto& options = stage.as<spec::dataset::Cifar100>();
  const bool train = options.split == spec::Split::train;
  const bool fine = options.label == spec::dataset::CifarLabel::fine;
  // A record starts with the coarse label, then the fine label.
  return {options.root, CifarSplit{.type = "cifar100",
                                   .archive = "cifar-100-binary.tar.gz",
                                   .folder = "cifar-100-binary",
                                   .files = {train ? "train.bin" : "test.bin"},
                                   .records = train ? 50'000 : 10'000,
                                   .label_bytes = 2,
                                   .label_at = fine ? 1 : 0,
                                   .classes = fine ? 100 : 20}};
}

template <CifarFiles (*files_of)(const config::Stage&)>
void register_cifar(Catalog& catalog, const char* type) {
  catalog.datasets[type] = [](const config::Stage& stage) { return files_of(stage).load(); };
  catalog.facts[type] = [](const config::Stage& stage) { return files_of(stage).facts(); };
}

}  // namespace

CifarFiles::CifarFiles(const fs::path& root, CifarSplit split)
    : split_(std::move(split)), root_(root) {
  with_fetch_advice(split_.type, root_, [&] { find(root); });
}

void CifarFiles::find(const fs::path& root) {
  ENSURE(data, is_remote(root) || is_folder(root), "the folder {} does not exist", shown(root));
  const std::string unpacked = split_.archive.substr(0, split_.archive.size() - 3);
  const auto found = first_existing({root / split_.files[0], root / split_.folder / split_.files[0],
                                     root / split_.archive, root / unpacked});
  ENSURE(data, found, "{} contains neither {} nor {}", shown(root), split_.archive,
         split_.files[0]);
  if (found->filename() != split_.files[0]) {
    archive_ = *found;
    return;
  }
  for (const std::string& file : split_.files) paths_.push_back(found->parent_path() / file);
}

Facts CifarFiles::facts() const {
  with_fetch_advice(split_.type, root_, [&] {
    for (const fs::path& path : paths_) expect_size(open_source(path)->most(), shown(path), split_);
    if (paths_.empty()) (void)open_source(archive_);
  });
  return facts_of(split_);
}

std::shared_ptr<const Dataset> CifarFiles::load() const {
  return with_fetch_advice(split_.type, root_, [&] {
    Filler filler(split_);
    paths_.empty() ? read_archive(filler, archive_, split_) : read_files(filler, paths_, split_);
    return filler.finish();
  });
}

void register_dataset_cifar10(Catalog& catalog) {
  register_cifar<cifar10_files>(catalog, "cifar10");
}

void register_dataset_cifar100(Catalog& catalog) {
  register_cifar<cifar100_files>(catalog, "cifar100");
}

}  // namespace trainctl::data
