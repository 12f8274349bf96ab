"""What the tables of each study show: a figure's name in the results, its title, its digits."""

from __future__ import annotations

from levyscreen.estimators.draws import SAMPLED

Columns = dict[str, tuple[str, int]]

# What is to be known to read a study's tables.
NOTES = {
    "interpolation": "Changes of MAE are against the Levy network of the same seed.",
    "cohort": (
        "The paper's wall-clock, on one RTX 3090: 1.35 s for one pass, 18.5 s for MC dropout, 5.3 s for the ensemble. "
        "`levyscreen screen --compare` times ours, in turns."
    ),
    "continuum": (
        "Of 64 records, 36 variables at 288 times, each way beside the one pass that was timed with it. The paper's "
        "seconds, of 3,383 records on one RTX 3090: 6.8 for one pass, 133.5 for MC dropout, 428.7 for 50 draws, 32.1 "
        "for the ensemble, after 14.7 min of training."
    ),
    "ablations": (
        "Every network here was trained for a third of the recipe's epochs, the paper's for all of theirs: rows are to "
        "be read against each other. The rates are of one network, set after its training. The paper's blocks are runs "
        "of their own: beside the index spaces its default has 0.302 and its control 0.298, beside sampled training "
        "its default has 0.309."
    ),
}

# Titles of the runs that are no estimators, in the order of their rows.
ROWS = {
    "continuum": {
        "free": "one pass",
        "with-deviation": "one pass, the deviation included",
        "draws": "50 draws of the layer",
    },
    "ablations": {
        "levy": "default: time x channel, 16 x 8 cells; width 128, 3 blocks; rate 0.5",
        "softmax": "softmax control",
        **{f"time-{cells}": f"time alone, {cells} cells" for cells in (8, 32, 64)},
        **{f"grid-{grid}": f"time x channel, {grid.replace('x', ' x ')} cells" for grid in ("8x4", "32x8", "16x16")},
        **{f"tau-{tau}": f"rate {tau}" for tau in (0.1, 0.5, 1.0, 2.0)},
        "sampled": "trained on the sampled path",
        "width-64": "width 64",
        "width-256": "width 256",
        "width-256-bfloat16": "width 256, products in bfloat16",
        "width-256-blocks-6": "width 256, 6 blocks",
        "width-512": "width 512",
        "width-512-blocks-6": "width 512, 6 blocks",
        "recipe": "the default recipe",
        "recipe-softmax": "the same, softmax decoder",
        "recipe-cosine": "the same, softmax decoder with unit queries and keys",
        "recipe-no-neighbours": "the same, without neighbours",
        "recipe-own-neighbours": "the same, neighbours of the query's own variable alone",
        "recipe-squared": "the same, squared loss",
        "recipe-fixed-sharpness": "the same, the paper's sharpness",
        "recipe-grid-16x8": "the same, grid 16 x 8",
        "recipe-shared-values": "the same, values embedded along one direction",
        "recipe-drawn-shares": "the same, shares held out drawn from 10 to 50 %",
        "recipe-width-256": "the same, width 256",
    },
}
# Of each study its tables, and of each table what stands above it and its columns.
BLOCKS: dict[str, tuple[tuple[str, Columns], ...]] = {
    "interpolation": (
        (
            "error ranking, every signal as it is",
            {"spearman": ("Spearman", 3), "ause": ("AUSE", 3), "mae_change": ("change of MAE", 3), "mae": ("MAE", 3)},
        ),
        (
            "predictive distributions",
            {
                "global_crps": ("CRPS, one scale", 4),
                "crps_raw": ("CRPS, uncalibrated", 4),
                "by_variable_crps": ("CRPS, a scale a variable", 4),
                "global_empirical_crps": ("CRPS, one scale, empirical law", 4),
                "by_variable_empirical_crps": ("CRPS, a scale and an empirical law a variable", 4),
                **{
                    f"by_variable_empirical_coverage_{level}": (f"its {level:.0%} interval", 3)
                    for level in (0.8, 0.9, 0.95)
                },
                "by_variable_empirical_tails_low": ("below its 2.5 %", 4),
                "by_variable_empirical_tails_high": ("above its 97.5 %", 4),
            },
        ),
        (
            "the layer read by sampling, its draws scored as they are",
            {f"crps_of_draws_{k}": (f"CRPS of {k} draw{'s' if k > 1 else ''}", 4) for k in SAMPLED},
        ),
        (
            "every signal calibrated by variable",
            {
                "by_variable_spearman": ("Spearman", 3),
                "by_variable_ause": ("AUSE", 3),
                "by_variable_patient_spearman": ("patient Spearman", 3),
                "by_variable_patient_flagged_decile_excess": ("flagged decile", 3),
            },
        ),
        (
            "coverage of the 80, 90 and 95 % intervals, one scale",
            {
                f"global_{kind}coverage_{level}": (f"{title} {level:.0%}", 3)
                for kind, title in (("", "Gaussian"), ("conformal_", "conformal"))
                for level in (0.8, 0.9, 0.95)
            },
        ),
        (
            "their median widths, z units",
            {
                f"global_{kind}width_{level}": (f"{title} {level:.0%}", 2)
                for kind, title in (("", "Gaussian"), ("conformal_", "conformal"))
                for level in (0.8, 0.9, 0.95)
            },
        ),
    ),
    "cohort": (
        (
            "patients never seen, every signal as it is",
            {
                "patient_spearman": ("Spearman", 3),
                "patient_flagged_decile_excess": ("flagged decile", 3),
                "patient_mae": ("MAE", 3),
                "ause": ("AUSE by query", 3),
            },
        ),
        (
            "patients never seen, calibrated by variable",
            {
                "by_variable_patient_spearman": ("Spearman", 3),
                "by_variable_patient_flagged_decile_excess": ("flagged decile", 3),
                "by_variable_ause": ("AUSE by query", 3),
                "by_variable_crps": ("CRPS", 4),
            },
        ),
    ),
    "continuum": (
        (
            "the dense timeline",
            {
                "seconds": ("seconds", 1),
                "seconds_of_one_pass": ("of one pass, timed with it", 1),
                "times": ("times one pass", 2),
            },
        ),
    ),
    "stress": (
        (
            "rank correlation of what the model says with its error, over levels of context",
            {
                "spearman_with_error_sigma-hat_scale": ("sigma_hat, scaled", 3),
                "spearman_with_error_deviation_scale": ("deviation, scaled", 3),
                "spearman_with_error_deviation": ("deviation", 3),
                "spearman_with_error_disagreement": ("disagreement", 3),
            },
        ),
        (
            "the same targets by what is left of the context",
            {
                "mae": ("MAE", 3),
                "mae_rise": ("its rise", 2),
                "deviation_scale": ("deviation, scaled", 3),
                "sigma-hat_scale": ("sigma_hat, scaled", 3),
                "disagreement": ("disagreement", 3),
                "evidence": ("evidence", 1),
            },
        ),
    ),
    "ablations": (
        (
            "what differs from the default",
            {
                "epochs": ("epochs", 0),
                "bits": ("bits of products in training", 0),
                "parameters": ("parameters", 0),
                "mae": ("MAE", 4),
                "mae_over_control": ("over the softmax control", 3),
                "mae_over_mean_path": ("over the mean path", 3),
                "disagreement_ause": ("AUSE, disagreement", 3),
                "deviation_ause": ("AUSE, deviation", 3),
                "sigma-hat_spearman": ("Spearman, sigma_hat", 3),
                "sigma-hat_global_coverage_0.8": ("coverage at 80 %", 3),
            },
        ),
    ),
    "beyond": (
        (
            "does the 90 % interval hold: groups whose coverage is over two standard errors away from 0.9 "
            "(by chance one in twenty)",
            {
                "groups_counted": ("groups", 0),
                "groups_outside": ("away", 0),
                "groups_outside_both": ("away, the calibration's chance counted", 0),
                **{f"outside_of_{by}": (f"away by {by}", 0) for by in ("variable", "evidence decile")},
                **{f"outside_of_{by}": (f"away by {by}", 0) for by in ("ICU type", "sex", "age")},
            },
        ),
        (
            "coverage of the 90 % interval, standard errors clustered by patient",
            {
                "n": ("targets", 0),
                "coverage": ("coverage", 3),
                "coverage_se": ("s.e.", 4),
                "calibration_se": ("s.e. of the calibration", 4),
                "below": ("below", 3),
                "below_se": ("s.e.", 4),
                "above": ("above", 3),
                "above_se": ("s.e.", 4),
                "outside": ("away", 1),
                "outside_both": ("away, both errors", 1),
            },
        ),
        (
            "patient trust from one hiding of 30 % and from three disjoint ones, nine tenths of the readings in all, "
            "on errors of the one, of all, of its own",
            {
                "patients": ("patients", 0),
                **{
                    f"{figure}_{errors}": (f"{title}, {of}", 3)
                    for figure, title in (("spearman", "Spearman"), ("flagged_decile", "flagged decile"))
                    for errors, of in (("one_hiding", "one"), ("all_folds", "all"), ("own", "own"))
                },
                "flag_overlap_hidings": ("same flags, other hiding", 3),
                "flag_overlap_trainings": ("same flags, other training", 3),
            },
        ),
    ),
}
