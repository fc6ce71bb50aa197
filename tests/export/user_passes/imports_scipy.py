import scipy.stats

Mine = scipy.stats.norm
