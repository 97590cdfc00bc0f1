// Strings by index: the same text always under the same one, whatever came before it.
#include "trace/string_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace flyball {
namespace {

TEST(StringPool, GivesEveryTextItsIndex) {
  StringPool pool;
  EXPECT_EQ(pool.intern(""), 0u);
  std::map<std::string, std::uint32_t> known{{"", 0}};
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    // In turns a fixed order, in which one string follows the other, and none.
    const auto number = i % 2000 < 1000 ? static_cast<unsigned long>(i) % 50 : random() % 500;
    const std::string text = number == 7 ? std::string() : "layer_" + std::to_string(number) + "/MatMul";
    const std::uint32_t id = pool.intern(text);
    const auto [place, fresh] = known.emplace(text, id);
    EXPECT_EQ(place->second, id);
    EXPECT_EQ(pool[id], text);
    EXPECT_EQ(pool.size(), known.size());
    if (fresh) EXPECT_EQ(id, pool.size() - 1);
  }
  for (const auto& [text, id] : known) EXPECT_EQ(pool[id], text);
}

TEST(StringPool, TakesAPartOfItsOwnText) {
  StringPool pool;
  const std::uint32_t whole = pool.intern("gradients/dense/MatMul");
  const std::uint32_t part = pool.intern(pool[whole].substr(10));
  EXPECT_EQ(pool[part], "dense/MatMul");
  EXPECT_EQ(pool[whole], "gradients/dense/MatMul");
}

}  // namespace
}  // namespace flyball
