#include "data/formats/npy.hpp"

#include "base/error.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/core/registry.hpp"
#include "spec/options/dataset.hpp"

#include <cstring>

namespace trainctl::data {
namespace {

using spec::dataset::Npy;

std::vector<std::int64_t> row_shape(const NpyHeader& header) {
  return {header.shape.begin() + 1, header.shape.end()};
}

Field image_of(const NpyArray& array) {
  const NpyHeader& header = array.header();
  std::vector<std::int64_t> shape = row_shape(header);
  if (shape.size() == 2) shape.push_back(1);
  ENSURE(data, header.type() == "u1" && shape.size() == 3 && (shape[2] == 1 || shape[2] == 3),
         "{} contains {} of shape ({}), but 'images' must be uint8 (u1) of shape (N, H, W) or "
         "(N, H, W, C) with C = 1 or 3\nhint: use 'features' for other arrays",
         array.name(), header.type(), fmt::join(header.shape, ", "));
  return {"image", Dtype::u8, std::move(shape)};
}

/// The arrays of the options. The constructor checks that their shapes agree.
class Arrays {
 public:
  explicit Arrays(const Npy& options)
      : options_(options), inputs_(path_of(options)), labels_(options.labels) {
    ENSURE(data, inputs_.header().shape[0] == labels_.header().shape[0],
           "{} has {} rows, but {} has {}", inputs_.name(), inputs_.header().shape[0],
           labels_.name(), labels_.header().shape[0]);
    input_ = options.images ? image_of(inputs_)
                            : Field{"features", Dtype::f32, row_shape(inputs_.header())};
    label_ = {"label", labels_.header().kind == 'f' ? Dtype::f32 : Dtype::i64,
              row_shape(labels_.header())};
    if (label_.shape == std::vector<std::int64_t>{1}) label_.shape = {};
    ENSURE(data, label_.dtype == Dtype::f32 ? label_.shape.size() <= 1 : label_.shape.empty(),
           "{} has shape ({}): 'labels' must have shape (N) for integers, (N) or (N, K) for floats",
           labels_.name(), fmt::join(labels_.header().shape, ", "));
    label_rows_ = label_.dtype == Dtype::f32 ? labels_.as_f32() : labels_.as_i64();
    if (label_.dtype == Dtype::i64) count_classes();
  }

  [[nodiscard]] Facts facts() const {
    return {inputs_.header().shape[0], classes_, {input_, label_}};
  }

  std::shared_ptr<const Dataset> load() {
    const bool in_place = input_.dtype == Dtype::u8;
    std::vector<FieldRows> fields;
    if (in_place)
      fields.push_back({input_, inputs_.data(), inputs_.file(), /*mapped=*/true});
    else
      fields.push_back(owned_rows(input_, inputs_.as_f32()));
    fields.push_back(owned_rows(label_, std::move(label_rows_)));
    return std::make_shared<const RowsDataset>(std::move(fields), classes_);
  }

 private:
  static const std::filesystem::path& path_of(const Npy& options) {
    ENSURE(config, options.images.has_value() != options.features.has_value(),
           "set either 'images' or 'features' to the path of one array");
    return options.images ? *options.images : *options.features;
  }

  void count_classes() {
    const std::int64_t most = options_.classes.value_or(std::numeric_limits<std::int32_t>::max());
    for (std::size_t i = 0; i * 8 < label_rows_.size(); ++i) {
      std::int64_t label = 0;
      std::memcpy(&label, label_rows_.data() + i * 8, 8);
      ENSURE(data, label >= 0 && label < most, "{} has label {} at byte {}: labels must be 0 to {}",
             labels_.name(), label, labels_.header().data_at + i * labels_.header().item_bytes,
             most - 1);
      classes_ = std::max(classes_, label + 1);
    }
    classes_ = options_.classes.value_or(classes_);
  }

  const Npy& options_;
  NpyArray inputs_;
  NpyArray labels_;
  Field input_;
  Field label_;
  std::vector<std::byte> label_rows_;
  std::int64_t classes_ = 0;
};

}  // namespace

void register_dataset_npy(Catalog& catalog) {
  catalog.datasets["npy"] = [](const config::Stage& stage) {
    return Arrays(stage.as<Npy>()).load();
  };
  catalog.facts["npy"] = [](const config::Stage& stage) { return Arrays(stage.as<Npy>()).facts(); };
}

}  // namespace trainctl::data
