// What jobs of every kind would choose at every price that was asked for, kept because decisions come back to the same
// few prices. For policies/joule_price.cpp, which says what the prices are.
//
// Prices are on grids: of a GPU-second 0, then rising by a tenth, to where a GPU is worth more than any job; of a joule
// drawn now, beyond that of every joule, 0, then rising by a fifth.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "cluster/offers.h"

namespace flyball {

inline constexpr int kGpuPrices = 180;
inline constexpr int kPowerPrices = 90;
// How many of the others outlast a job, from 0, none, to all.
inline constexpr int kRanks = 8;

struct PriceSteps {
  int power = 0;
  int gpu = 0;
};

struct SizeChoice {
  int level = -1;  // of the kind's sizes; -1: none
  int offer = 0;
  int gpus = 0;
};

struct KindRank {
  int kind = 0;
  int rank = 0;  // of kRanks
};

// Not thread-safe.
class PriceViews {
 public:
  // What a kind would choose, by rank.
  struct View {
    int version = -1;  // of the kind's offers
    SizeChoice best;   // of a job that need not restart
    double worth = 0.0;
  };
  // At one pair of prices.
  struct Page {
    std::vector<View> views;  // by kind and rank
    std::vector<Gain> gains;  // and level
  };

  // Reads the energy price from the power limit, and the offers of the kinds that changed; at the first call, of all.
  void read(const ClusterState& cluster, const std::vector<int>& kinds_changed, const std::vector<int>& power_changed);

  [[nodiscard]] const std::vector<SizeOffers>& offers(int kind) const {
    return offers_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] double energy_price() const { return energy_price_; }

  // Valid until the next call.
  [[nodiscard]] Page& page_at(const PriceSteps& steps);
  // `page` is that of `steps`.
  const View& view(Page& page, const KindRank& one, const PriceSteps& steps);
  // Of a kind that was viewed on that page, by level.
  [[nodiscard]] Gain* gains(Page& page, const KindRank& one) const;
  int offer_at(Page& page, const KindRank& one, const PriceSteps& steps, int level);

 private:
  struct Worth {
    int version = -1;
    double value = 0.0;
  };

  void read_offers(const ClusterState& cluster, const std::vector<int>& kinds_changed,
                   const std::vector<int>& power_changed);
  void look(View& seen, Gain* gains, const KindRank& one, const PriceSteps& steps);
  double worth_of(const KindRank& one, int gpu_step);

  std::vector<std::vector<SizeOffers>> offers_;  // by kind
  std::vector<int> versions_;                    // of what they cost, to tell when it changes
  std::vector<std::size_t> first_gain_;          // of a page's views, by kind and rank, and all
  std::map<int, Page> pages_;                    // by steps
  std::vector<Worth> worths_;                    // by GPU step, kind and rank
  double energy_price_ = 0.0;
};

}  // namespace flyball
