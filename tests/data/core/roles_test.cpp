#include "base/error.hpp"
#include "data/core/batch.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using spec::Inputs;
using spec::Targets;

namespace {

const Field kImage{"image", Dtype::u8, {4, 5, 3}};
const Field kClass{"label", Dtype::i64, {}};
const Field kRow{"features", Dtype::f32, {7}};

using Shape = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("roles_of: images and classes are found in any order of the fields") {
  const Roles roles = roles_of({kClass, kImage});
  CHECK(roles.kind.inputs == Inputs::images);
  CHECK(roles.kind.targets == Targets::classes);
  CHECK(roles.input == 1);
  CHECK(roles.target == 0);
  CHECK(roles.input_shape == Shape{3, 4, 5});
  CHECK(roles.target_shape.empty());
  CHECK(roles.outputs(10) == 10);
  CHECK_FALSE(roles.lambda);
}

TEST_CASE("without_mask: the mask is the last channel of an image") {
  CHECK_FALSE(has_masks({kImage, kClass}));
  CHECK(without_mask({kImage, kClass}, 0) == kImage);
  const Layout masked{kClass, {"image", Dtype::u8, {4, 5, 4}}, {"pixels", Dtype::i64, {}}};
  CHECK(has_masks(masked));
  CHECK(without_mask(masked, 1) == kImage);
}

TEST_CASE("roles_of: label_b of a mixed batch is not its target") {
  const Roles roles =
      roles_of({kImage, kClass, {"label_b", Dtype::i64, {}}, {"lambda", Dtype::f32, {}}});
  CHECK(roles.target == 1);
  CHECK(roles.label_b == 2U);
  CHECK(roles.lambda == 3U);
}

TEST_CASE("roles_of: a scalar is a row of one, and each target number needs one output") {
  const Roles rows = roles_of({kRow, {"label", Dtype::f32, {2}}});
  CHECK(rows.kind.inputs == Inputs::numbers);
  CHECK(rows.kind.targets == Targets::numbers);
  CHECK(rows.input_shape == Shape{7});
  CHECK(rows.outputs(0) == 2);
  const Roles scalars = roles_of({{"features", Dtype::f32, {}}, {"label", Dtype::f32, {}}});
  CHECK(scalars.input_shape == Shape{1});
  CHECK(scalars.target_shape == Shape{1});
  CHECK(scalars.outputs(0) == 1);
  CHECK(roles_of({kImage, {"label", Dtype::f32, {4}}}).outputs(0) == 4);
}

TEST_CASE("roles_of: tokens have targets of the same length") {
  const Roles roles = roles_of({{"tokens", Dtype::i64, {16}}, {"targets", Dtype::i64, {16}}});
  CHECK(roles.kind.inputs == Inputs::tokens);
  CHECK(roles.kind.targets == Targets::tokens);
  CHECK(roles.target_shape == Shape{16});
  CHECK(roles.outputs(50257) == 50257);
}

TEST_CASE("roles_of: tokens with a class need a vocabulary, which is not the number of outputs") {
  const Roles roles = roles_of({{"tokens", Dtype::i64, {16}, 256, /*padding_id=*/9}, kClass});
  CHECK(roles.kind.inputs == Inputs::tokens);
  CHECK(roles.kind.targets == Targets::classes);
  CHECK(roles.kind.vocab_size == 256);
  CHECK(roles.kind.padding_id == 9);
  CHECK(roles.target_shape.empty());
  CHECK(roles.outputs(3) == 3);
  CHECK_FALSE(has_same_inputs({{"tokens", Dtype::i64, {16}, 256}, kClass},
                              {{"tokens", Dtype::i64, {16}, 300}, kClass}));
}

TEST_CASE("roles_of: fields without a valid input and target are an error") {
  for (const Layout& layout :
       std::vector<Layout>{{},
                           {kImage},
                           {kClass},
                           {kRow},
                           {{"image", Dtype::f32, {4, 5, 3}}, kClass},
                           {{"image", Dtype::u8, {4, 5}}, kClass},
                           {{"features", Dtype::i64, {7}}, kClass},
                           {kRow, {"label", Dtype::i64, {2}}},
                           {kRow, {"label", Dtype::f32, {2, 2}}},
                           {kRow, {"label", Dtype::u8, {}}},
                           {{"tokens", Dtype::i64, {16}}, kClass},
                           {{"tokens", Dtype::i64, {16}}, {"targets", Dtype::i64, {15}}}}) {
    CHECK_FALSE(find_roles(layout));
    CHECK_THROWS_AS(roles_of(layout), Error);
  }
}
