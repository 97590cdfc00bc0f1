#include "support/lp_oracle.h"

#include <glpk.h>
#include <gtest/gtest.h>

#include <memory>

namespace flyball::testing {
namespace {

constexpr double kUnit = 1e-6;  // columns are in ms, so that coefficients are of order one

}  // namespace

// One column per start time; one per piece of a cost curve, the time by which that piece shortens the operation from
// its slowest, at the piece's slope. Convexity makes the cheapest (slowest) pieces fill first.
double lp_bound(const ComputationDag& dag, std::span<const CostCurve> curves, Nanoseconds time) {
  const std::unique_ptr<glp_prob, void (*)(glp_prob*)> lp(glp_create_prob(), glp_delete_prob);
  glp_set_obj_dir(lp.get(), GLP_MIN);
  const int n = dag.size();
  glp_add_cols(lp.get(), n);
  for (int i = 0; i < n; ++i) glp_set_col_bnds(lp.get(), i + 1, GLP_LO, 0.0, 0.0);
  double base = 0.0;
  std::vector<std::vector<int>> pieces(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    const CostCurve& curve = curves[static_cast<std::size_t>(dag[i].type)];
    base += curve.back().net_joules;
    for (std::size_t k = 1; k < curve.size(); ++k) {
      const double length = static_cast<double>(curve[k].time - curve[k - 1].time) * kUnit;
      const int column = glp_add_cols(lp.get(), 1);
      glp_set_col_bnds(lp.get(), column, GLP_DB, 0.0, length);
      glp_set_obj_coef(lp.get(), column, (curve[k - 1].net_joules - curve[k].net_joules) / length);
      pieces[static_cast<std::size_t>(i)].push_back(column);
    }
  }
  // start_j - start_i + sum of i's pieces >= slowest time of i; and the same against the end of the iteration.
  const auto add_row = [&](int before, int after) {
    std::vector<int> columns{0, before + 1};
    std::vector<double> values{0.0, -1.0};
    for (const int column : pieces[static_cast<std::size_t>(before)]) {
      columns.push_back(column);
      values.push_back(1.0);
    }
    double least = static_cast<double>(curves[static_cast<std::size_t>(dag[before].type)].back().time) * kUnit;
    if (after >= 0) {
      columns.push_back(after + 1);
      values.push_back(1.0);
    } else {
      least -= static_cast<double>(time) * kUnit;
    }
    const int row = glp_add_rows(lp.get(), 1);
    glp_set_row_bnds(lp.get(), row, GLP_LO, least, 0.0);
    glp_set_mat_row(lp.get(), row, static_cast<int>(columns.size()) - 1, columns.data(), values.data());
  };
  for (int i = 0; i < n; ++i) {
    for (const int s : dag.successors(i)) add_row(i, s);
    if (dag.successors(i).empty()) add_row(i, -1);
  }
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.presolve = GLP_ON;
  EXPECT_EQ(glp_simplex(lp.get(), &options), 0);
  EXPECT_EQ(glp_get_status(lp.get()), GLP_OPT);
  return base + glp_get_obj_val(lp.get());
}

}  // namespace flyball::testing
